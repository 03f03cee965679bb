package compare

import (
	"os"
	"path/filepath"
	"testing"

	"lastitem/testkit"
)

func TestEnvironment(t *testing.T) {
	e := ThisEnvironment()
	if e.Go == "" || e.CPUs < 1 || e.GOMAXPROCS < 1 || e.Time.IsZero() {
		t.Errorf("ThisEnvironment() = %+v, want every field of the machine known", e)
	}
	path := filepath.Join(t.TempDir(), "cpuinfo")
	testkit.Must(t, os.WriteFile(path, []byte("processor\t: 0\nmodel name\t: Example CPU @ 2GHz\n"), 0o600))
	if got := cpuModel(path); got != "Example CPU @ 2GHz" {
		t.Errorf("cpuModel = %q, want the model name", got)
	}
	if got := cpuModel(path + ".none"); got != "" {
		t.Errorf("cpuModel of no file = %q, want nothing", got)
	}
}
