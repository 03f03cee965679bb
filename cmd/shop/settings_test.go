package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lastitem/internal/replica"
)

// Every variable that the repository names is in the list, and has a text in both languages; every one in the list is read somewhere.
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
			if slices.Contains([]string{".git", "bin", "out"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		base := filepath.Base(path)
		if strings.HasPrefix(base, "settings") || base == "config.go" || base == "CHANGELOG.md" || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(base, ".env") {
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
	if err != nil {
		t.Fatal(err)
	}
	// Not listed: between the processes of a local stack (SHOP_GUEST), listed in one row (OTEL_BSP_*), and of the terminal and the desktop.
	internal := []string{"SHOP_GUEST", "OTEL_BSP", "TERM", "DISPLAY", "WAYLAND_DISPLAY"}
	listed := map[string]bool{}
	for _, s := range append(replica.Settings(), otherSettings...) {
		if listed[s.Name] {
			t.Errorf("%s is listed twice", s.Name)
		}
		listed[s.Name] = true
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
