package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"lastitem/internal/replica"
	"lastitem/testkit"
)

// Every variable that the repository names is in the list, and has a text in both languages; every one in the list is
// read somewhere.
func TestSettingsAreComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]string{} // by name, the first file that names it
	name := regexp.MustCompile(`\b(SHOP|OTEL)_[A-Z][A-Z_]*[A-Z]\b`)
	asked := regexp.MustCompile(`Getenv\("([A-Z_]+)"\)`)
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "out", "habits"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		base := filepath.Base(path)
		if strings.HasPrefix(base, "settings") || base == "config.go" || base == "CHANGELOG.md" ||
			strings.HasSuffix(path, "_test.go") || strings.HasPrefix(base, ".env") {
			return nil
		}
		text, err := os.ReadFile(path)
		names := name.FindAllString(string(text), -1)
		for _, found := range asked.FindAllStringSubmatch(string(text), -1) {
			names = append(names, found[1])
		}
		for _, found := range names {
			if seen[found] == "" {
				seen[found] = path
			}
		}
		return err
	})
	testkit.Must(t, err)
	// Not listed: between the processes of a local stack (SHOP_GUEST), listed in one row (OTEL_BSP_*), and of the terminal
	// and the desktop.
	internal := []string{"PATH", "SHOP_GUEST", "OTEL_BSP", "TERM", "DISPLAY", "WAYLAND_DISPLAY"}
	listed := map[string]bool{}
	for _, s := range append(replica.Settings(), otherSettings...) {
		if listed[s.Name] {
			t.Errorf("%s is listed twice", s.Name)
		}
		listed[s.Name], listed[s.Name+replica.InFile] = true, s.Secret
		if s.Help.En == "" || s.Help.Zh == "" {
			t.Errorf("%s has no text in English or in Chinese", s.Name)
		}
		if !slices.ContainsFunc(settingGroups, func(g settingGroup) bool { return g.name == s.Group }) {
			t.Errorf("%s is in group %q, which is not in settingGroups", s.Name, s.Group)
		}
	}
	for found, path := range seen {
		if !listed[found] && !slices.Contains(internal, found) {
			t.Errorf("%s names %s, which 'shop settings' does not list", path, found)
		}
	}
	for _, s := range otherSettings {
		if strings.HasPrefix(s.Name, "SHOP_") && seen[s.Name] == "" {
			t.Errorf("%s is listed, and nothing reads it", s.Name)
		}
	}
}

// twoValues are two valid values for a setting, neither of which is the default.
func twoValues(t *testing.T, s replica.Setting) (one, other string) {
	t.Helper()
	switch s.Kind {
	case "string":
		return "one", "other"
	case "int":
		return "7", "8"
	case "bool":
		return "true", "false"
	case "duration":
		return "7m0s", "8m0s"
	case "names":
		return "one.example", "other.example"
	case "backends":
		return "redis", "sql"
	case "JSON":
		return `{"etcd":"one"}`, `{"etcd":"other"}`
	case "level":
		return "debug", "warn"
	case "format":
		return "json", "text"
	}
	t.Fatalf("%s: no values for a %s", s.Name, s.Kind)
	return "", ""
}

// Every setting of a replica is a flag of serve and a variable: the flag comes before the variable, and the variable
// before the default.
func TestSettingsPrecedence(t *testing.T) {
	settings := replica.Settings()
	at := 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[replica.Config]()) {
		if f.Tag.Get("env") == "" {
			continue
		}
		s := settings[at]
		at++
		t.Run(s.Name, func(t *testing.T) {
			one, other := twoValues(t, s)
			read := func(args ...string) string {
				given := givenSettings{}
				set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
				given.add(set, "en")
				testkit.Must(t, set.Parse(args))
				c, err := replica.Read(given)
				testkit.Must(t, err)
				return fmt.Sprint(reflect.ValueOf(c).FieldByIndex(f.Index))
			}
			want := func(value string) string {
				given := givenSettings{s.Name: value}
				c, err := replica.Read(given)
				testkit.Must(t, err)
				return fmt.Sprint(reflect.ValueOf(c).FieldByIndex(f.Index))
			}
			t.Setenv(s.Name, "")
			if got := read(); got != want(s.Default) {
				t.Errorf("without a variable it is %s, want the default %q", got, s.Default)
			}
			t.Setenv(s.Name, one)
			if got := read(); got != want(one) || got == want(s.Default) && s.Default != one {
				t.Errorf("%s=%s gives %s", s.Name, one, got)
			}
			if got := read("--" + s.Flag() + "=" + other); got != want(other) || got == want(one) {
				t.Errorf("%s=%s and --%s=%s give %s, want the flag's", s.Name, one, s.Flag(), other, got)
			}
		})
	}
	if at != len(settings) || at < 30 {
		t.Errorf("%d settings, want all %d", at, len(settings))
	}
}

// An error names the setting as the user gave it, by its flag or by its variable, and says what it should be.
func TestSettingsAreNamedAsGiven(t *testing.T) {
	for _, tt := range []struct {
		variable, value string
		args            []string
		want            string
	}{
		{"SHOP_LOCK_TTL", "soon", nil, `shop: SHOP_LOCK_TTL is "soon", want a duration with its unit`},
		{"SHOP_LOCK_TTL", "5s", []string{"--lock-ttl", "soon"}, `shop: --lock-ttl is "soon", want a duration with its unit`},
		{"SHOP_LOCK_TTL", "1ms", nil, "shop: SHOP_LOCK_TTL is 1ms, want at least 50ms"},
		{"SHOP_LOCK_TTL", "5s", []string{"--lock-ttl", "1ms"}, "shop: --lock-ttl is 1ms, want at least 50ms"},
		{"SHOP_LISTEN", "8080", nil, `SHOP_LISTEN is "8080", want host:port`},
		{"SHOP_LISTEN", ":8080", []string{"--listen", "8080"}, `--listen is "8080", want host:port`},
		{"SHOP_KEEP_KEYS", "", []string{"--keep-keys", "1us"}, "--keep-keys is 1µs, want 0 or at least 1ms"},
		{"SHOP_PROTECT_READS", "", []string{"--protect-reads=perhaps"}, `--protect-reads is "perhaps", want true or false`},
		{"SHOP_LOCK_TTL", "10", nil, `SHOP_LOCK_TTL is "10", want a duration with its unit, such as 10s`},
		{"SHOP_DRAIN", "x", nil, `SHOP_DRAIN is "x", want a duration with its unit, such as 10s`},
		{"SHOP_CONNS", "many", nil, `SHOP_CONNS is "many", want a whole number`},
		{"SHOP_CONNS", "99999999999999999999", nil, `SHOP_CONNS is "99999999999999999999", want `},
		{"SHOP_LOG_LEVEL", "loud", nil, `SHOP_LOG_LEVEL is "loud", want debug, info`},
		{"SHOP_LOG_FORMAT", "xml", nil, `SHOP_LOG_FORMAT is "xml", want text or json`},
		{"SHOP_MISSING", "etcd", nil, `SHOP_MISSING is "etcd", want JSON`},
		{"SHOP_HOSTS", "http://a", nil, `SHOP_HOSTS is "http://a", want `},
	} {
		t.Run(tt.want, func(t *testing.T) {
			t.Setenv(tt.variable, tt.value)
			wantRefused(t, newRoot("en"), tt.want, append([]string{"serve", "--redis", "redis://127.0.0.1:1"}, tt.args...)...)
		})
	}
}
