package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lastitem/internal/localstack"
)

// The line that 'shop up' prints for another shell sets what the pages' commands use, whatever is in a password, and leaves
// the user's own servers out.
func TestUpPrintsALineToPaste(t *testing.T) {
	t.Parallel()
	stack := &localstack.Stack{
		URL: "http://127.0.0.1:8080", Token: `it's a "token" $HOME`,
		Redis: localstack.Service{Name: "redis", URL: "redis://:pw@127.0.0.1:1/0", PID: 7},
		SQL:   localstack.Service{Name: "sql", Kind: "embedded SQLite", URL: "sqlite:/tmp/x.db"},
	}
	line := ""
	for lang, end := range map[string]string{"en": "Ctrl-C ends it all.", "zh": "按 Ctrl-C 全部停止。"} {
		var out bytes.Buffer
		if err := printStack(&out, stack, &upFlags{lang: lang}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), end) {
			t.Errorf("--lang %s: %s\nwant it to end with %q", lang, &out, end)
		}
		for l := range strings.Lines(out.String()) {
			if l = strings.TrimSpace(l); strings.HasPrefix(l, "export ") {
				line = l
			}
		}
	}
	got, err := exec.CommandContext(t.Context(), "sh", "-c", line+`; printf '%s|%s|%s' "$SHOP_ADMIN_TOKEN" "$REDIS" "$SQL"`).Output()
	if want := stack.Token + "|" + stack.Redis.URL + "|" + stack.SQL.URL; err != nil || string(got) != want {
		t.Errorf("%s\nsets %q (%v), want %q", line, got, err, want)
	}
	stack.Redis.PID, stack.SQL.Kind, stack.SQL.URL = 0, "given", "shop:secret@tcp(db)/x"
	if line := exports(stack); strings.Contains(line, "REDIS=") || strings.Contains(line, "secret") {
		t.Errorf("with servers of the user's own: %s, want the token alone", line)
	}
}

// The file of --env sets the same variables in a shell that sources it, only its owner may read it, and it replaces an older one.
func TestUpWritesAFileToSource(t *testing.T) {
	t.Parallel()
	stack := &localstack.Stack{
		Token: "it's a token", Redis: localstack.Service{URL: "redis://:pw@127.0.0.1:1/0", PID: 7},
		SQL: localstack.Service{Kind: "mariadbd", URL: "root@tcp(127.0.0.1:2)/x"},
	}
	file := filepath.Join(t.TempDir(), "out", "up.env")
	for range 2 {
		if _, err := writeEnv(file, stack); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o644); err != nil { // what another run left
			t.Fatal(err)
		}
	}
	remove, err := writeEnv(file, stack)
	if err != nil {
		t.Fatal(err)
	}
	if i, err := os.Stat(file); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want a file that only its owner can read", i, err)
	}
	line := forAnotherShell(stack, file)
	got, err := exec.CommandContext(t.Context(), "sh", "-c", line+` && printf '%s|%s|%s' "$SHOP_ADMIN_TOKEN" "$REDIS" "$SQL"`).Output()
	if want := stack.Token + "|" + stack.Redis.URL + "|" + stack.SQL.URL; err != nil || string(got) != want {
		t.Errorf("%s sets %q (%v), want %q", line, got, err, want)
	}
	if got, want := forAnotherShell(stack, "up.env"), ". './up.env'"; got != want {
		t.Errorf("a file of the current directory: %s, want %s", got, want)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("%v; want the file removed at the end", err)
	}
}

// 'shop up --env' neither replaces nor deletes what it did not write: as root, --env /dev/null would cost the machine that device.
func TestUpKeepsWhatIsNotItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.Mkdir(path("directory"), 0o755), os.WriteFile(path("notes"), []byte("SHOP_PORT=8080\n"), 0o600),
		os.Symlink("notes", path("link")), syscall.Mkfifo(path("pipe"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"directory", "notes", "link", "pipe"} {
		before, err := os.Lstat(path(name))
		if err != nil {
			t.Fatal(err)
		}
		wantRefused(t, newRoot("en"), "shop: --env "+path(name)+": ", "up", "--redis", "redis://127.0.0.1:1", "--env", path(name))
		if _, err := writeEnv(path(name), &localstack.Stack{Token: "t"}); err == nil {
			t.Errorf("writeEnv replaced %s", name)
		}
		if after, err := os.Lstat(path(name)); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s is now %v, %v; want it untouched", name, after, err)
		}
	}
	if err := checkEnv("/dev/null/up.env"); err == nil {
		t.Error("checkEnv takes a file that cannot be written")
	}
}

// At the end a stack deletes its own file: not that of a later stack, and it does not miss one that is gone.
func TestUpDeletesItsOwnFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "up.env")
	var removes []func() error
	for _, token := range []string{"first", "second"} {
		remove, err := writeEnv(file, &localstack.Stack{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		removes = append(removes, remove)
	}
	if err := removes[0](); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "second") {
		t.Errorf("the file of the second stack is %q, %v", text, err)
	}
	for range 2 {
		if err := removes[1](); err != nil {
			t.Errorf("remove() = %v", err)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	code, out, errOut := commandLine(t.Context(), newVersion("en"))
	if code != exitOK || strings.TrimSpace(out) != "shop version "+version() {
		t.Errorf("shop version = %d, %q, %q; want the version", code, out, errOut)
	}
}
