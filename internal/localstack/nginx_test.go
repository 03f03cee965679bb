package localstack_test

import (
	"os/exec"
	"strings"
	"testing"

	"lastitem/internal/localstack"
	"lastitem/internal/testenv"
)

func TestNginxConfIsValid(t *testing.T) {
	t.Parallel()
	argv, err := localstack.NginxCheck(testenv.Nginx(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
	if err != nil || strings.Contains(string(out), "[warn]") {
		t.Errorf("nginx -t: %v\n%s", err, out)
	}
}
