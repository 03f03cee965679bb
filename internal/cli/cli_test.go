package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"lastitem/testkit"
)

// A path that is mistyped makes no directories, and a result that a flag sends elsewhere is not written to the usual
// file as well.
func TestNoFileUnasked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, missing := range []string{"/no-such-directory/x.html", filepath.Join(dir, "missing", "dir", "x.html")} {
		want := "there is no directory " + filepath.Dir(missing)
		if err := Writable(missing); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Writable(%s) = %v, want %q", missing, err, want)
			_ = os.Remove("/no-such-directory")
		}
		if err := ToFile(missing, false, func(io.Writer) error { return nil }); err == nil {
			t.Errorf("ToFile(%s) made its directories", missing)
			_ = os.RemoveAll("/no-such-directory")
		}
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v, want nothing", left, err)
	}
	for _, flag := range []string{"--html", "--markdown"} {
		o, cmd := Output{Usual: "out/demo.json"}, &cobra.Command{}
		o.Add(cmd, "en", Text, JSON, HTML, Markdown)
		o.AddBesides(cmd, HTML, Markdown)
		err := cmd.ParseFlags([]string{flag, filepath.Join(dir, "x")})
		if err := errors.Join(err, o.check(cmd)); err != nil || o.File != "" {
			t.Errorf("%s FILE writes %q too, %v, want no file that nobody named", flag, o.File, err)
		}
	}
}

// The file of a result with passwords is for its owner alone, even if it was there and everybody could read it.
func TestSecretOutput(t *testing.T) {
	t.Parallel()
	for _, secret := range []bool{true, false} {
		file := filepath.Join(t.TempDir(), "sub", "result.json")
		for range 2 {
			if err := ToFile(file, secret, func(w io.Writer) error {
				_, err := io.WriteString(w, "1")
				return err
			}); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(file)
			if err != nil || info.Size() != 1 || (info.Mode().Perm()&0o077 == 0) != secret {
				t.Errorf("secret %t: %v, %v, want that others can read it: %t", secret, info, err, !secret)
			}
			testkit.Must(t, os.Chmod(file, 0o644))
		}
	}
}

// The default of --lang follows the locale.
func TestLocale(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		all, messages, lang, want string
	}{
		{"", "", "", "en"}, {"", "", "zh_CN.UTF-8", "zh"}, {"", "", "de_DE.UTF-8", "en"}, {"C", "", "zh_CN.UTF-8", "en"},
		{"", "zh_TW", "en_US", "zh"}, {"", "en_US", "zh_CN", "en"}, {"", "", "C.UTF-8", "en"}, {"zh_CN.utf8", "", "", "zh"},
		{"zh_CN.GBK", "", "", "en"}, {"", "", "zh_TW.Big5", "en"}, {"", "zh_CN.UTF-8", "zh_CN.GB18030@stroke", "en"},
	} {
		environment := map[string]string{"LC_ALL": tt.all, "LC_MESSAGES": tt.messages, "LANG": tt.lang}
		if got := localeLanguage(func(name string) string { return environment[name] }); got != tt.want {
			t.Errorf("the language of LC_ALL=%s LC_MESSAGES=%s LANG=%s is %s, want %s", tt.all, tt.messages, tt.lang, got,
				tt.want)
		}
	}
	// Output for programs does not change with the locale.
	var o Output
	cmd := &cobra.Command{}
	o.Add(cmd, "en", Text, JSON)
	lang := ""
	AddLang(cmd.Flags(), &lang)
	for _, tt := range []struct{ form, want string }{{Text, "zh"}, {JSON, "en"}} {
		o.Form, o.chosen = tt.form, true
		testkit.Must(t, o.check(cmd))
		if got := o.Language(cmd, "zh"); got != tt.want {
			t.Errorf("the language of -o %s in a Chinese locale is %s, want %s", tt.form, got, tt.want)
		}
	}
}

// The flag decides before the locale, wherever it stands.
func TestLanguage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ line, locale, want string }{
		{"", "", "en"}, {"demo", "zh_CN.UTF-8", "zh"}, {"--lang zh demo", "", "zh"}, {"demo --help --lang=zh", "C", "zh"},
		{"--lang en help demo", "zh_CN.UTF-8", "en"}, {"demo --lang de", "zh_TW", "zh"}, {"demo --lang", "", "en"},
		{"rolling -- make --lang zh", "", "en"}, {"demo --lang zh --lang en", "", "en"},
	} {
		got := Language(strings.Fields(tt.line), func(name string) string {
			return map[string]string{"LANG": tt.locale}[name]
		})
		testkit.Is(t, got, tt.want, "Language(%q) under LANG=%s", tt.line, tt.locale)
	}
}
