package replica

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lastitem/testkit"
)

// Each secret can be read from a file instead; a file that is missing or empty, and a value given twice, are errors
// that name the variable.
func TestReadFiles(t *testing.T) {
	dir := t.TempDir()
	good, empty := filepath.Join(dir, "good"), filepath.Join(dir, "empty")
	for file, text := range map[string]string{good: "redis://:geheim@h\r\n", empty: "\n"} {
		testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	for _, s := range Settings() {
		for file, want := range map[string]string{good: "", empty: "is empty", dir + "/none": "no such file",
			"twice": "both set"} {
			t.Run(s.Name, func(t *testing.T) {
				t.Setenv(s.Name, "")
				if file == "twice" {
					t.Setenv(s.Name, "redis://:geheim@h")
				}
				t.Setenv(s.Name+InFile, file)
				err := ReadFiles()
				switch {
				case !s.Secret:
					if err != nil || os.Getenv(s.Name) == "redis://:geheim@h" && file == good {
						t.Errorf("ReadFiles() = %v and reads %s, which holds no secret", err, s.Name)
					}
				case want == "":
					if err != nil || os.Getenv(s.Name) != "redis://:geheim@h" || os.Getenv(s.Name+InFile) != "" {
						t.Errorf("ReadFiles() = %v, %q, want the text of the file", err, os.Getenv(s.Name))
					}
				case err == nil || !strings.Contains(err.Error(), s.Name+InFile+": ") || !strings.Contains(err.Error(), want) ||
					strings.Contains(err.Error(), "geheim"):
					t.Errorf("ReadFiles() = %v, want an error of %s with %q and no secret", err, s.Name+InFile, want)
				}
			})
		}
	}
}
