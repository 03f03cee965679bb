package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/console"
	manual "lastitem/docs"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// The Mermaid that draws the pictures. It is no dependency of the program: npm fetches it when a picture is missing.
const (
	mermaidVersion = "11.4.1"
	mermaidHash    = "sha512-Mb01JT/x6CKDWaxigwfZYuYmDZ6xtrNwNlidKZwkSrDaY9n90tdrJTV5Umk+wP1fZscGptmKFXHsXMDEVZ+Q6A=="
)

//go:generate go test -count=1 -run ^TestDiagrams$ . -update

// TestDiagrams: each Mermaid diagram of the documentation has its picture in docs/diagrams, whose name is the hash of
// the diagram's source, and no picture is left over. -update draws what is missing, in Chromium, and removes the rest.
func TestDiagrams(t *testing.T) {
	const dir = "../../docs/"
	sources := diagramSources(t)
	missing := map[string]string{}
	for file, source := range sources {
		if _, err := os.Stat(dir + file); err != nil {
			missing[file] = source
		}
	}
	there, err := filepath.Glob(dir + "diagrams/*.svg")
	testkit.Must(t, err)
	for _, file := range there {
		if _, wanted := sources["diagrams/"+filepath.Base(file)]; wanted {
			continue
		}
		if !*update {
			t.Errorf("%s is the picture of no diagram: run 'make generate'", file)
		} else if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	}
	switch {
	case len(missing) > 0 && !*update:
		t.Errorf("%d diagrams have no picture, such as %s, of\n%s\nrun 'make generate'", len(missing),
			slices.Sorted(maps.Keys(missing))[0],
			missing[slices.Sorted(maps.Keys(missing))[0]])
	case len(missing) > 0:
		testkit.Must(t, os.MkdirAll(dir+"diagrams", 0o755))
		for file, picture := range draw(t, missing) {
			testkit.Check(t, os.WriteFile(dir+file, []byte(picture), 0o644))
		}
	}
}

// diagramSources are the diagrams of all pages, by the names of their pictures.
func diagramSources(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(manual.Files(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(name) != ".md" {
			return err
		}
		text, err := fs.ReadFile(manual.Files(), name)
		for _, source := range console.Diagrams(text) {
			all[console.PictureName(source)] = source
		}
		return err
	})
	testkit.Must(t, err)
	return all
}

// drawing sets Mermaid up for pictures that stand alone on a white ground.
const drawing = `mermaid.initialize({startOnLoad: false, theme: "neutral", securityLevel: "strict",
	fontFamily: "sans-serif", deterministicIds: true,
  sequence: {mirrorActors: false, useMaxWidth: true}, flowchart: {htmlLabels: false}}); 0`

// draw has Chromium draw diagrams.
func draw(t *testing.T, sources map[string]string) (pictures map[string]string) {
	t.Helper()
	b := openTab(t, "")
	js := func(expression string) string { return eval[string](b, expression) }
	js(string(mermaid(t)) + ";''")
	js(drawing + ";''")
	pictures = map[string]string{}
	for _, file := range slices.Sorted(maps.Keys(sources)) {
		quoted, err := json.Marshal(sources[file])
		testkit.Must(t, err)
		js(fmt.Sprintf("window.drawn = ''; mermaid.render('d', %s).then(r => window.drawn = r.svg, e => window.drawn = "+
			"'no: ' + e); ''", quoted))
		picture := ""
		for end := time.Now().Add(testenv.Still); picture == "" && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			picture = js("window.drawn")
		}
		if !strings.HasPrefix(picture, "<svg") {
			t.Errorf("%s\n%s", sources[file], picture)
			continue
		}
		pictures[file] = slim(picture) + "\n"
	}
	t.Logf("drew %d diagrams", len(pictures))
	return pictures
}

// symbols are the icons and markers of which a sequence diagram has all, used or not.
var symbols = regexp.MustCompile(`<defs><(symbol|marker)[^>]*id="([^"]*)".*?</(symbol|marker)></defs>`)

// box is the size of a picture.
var box = regexp.MustCompile(`viewBox="\S+ \S+ (\S+) (\S+)"`)

// slim gives a picture its size, which an img needs, and leaves out the symbols that it does not use.
func slim(picture string) string {
	if m := box.FindStringSubmatch(picture); m != nil {
		picture = strings.Replace(picture, `width="100%"`, `width="`+m[1]+`" height="`+m[2]+`"`, 1)
	}
	return symbols.ReplaceAllStringFunc(picture, func(s string) string {
		if id := symbols.FindStringSubmatch(s)[2]; strings.Contains(picture, "url(#"+id+")") ||
			strings.Contains(picture, `href="#`+id+`"`) {
			return s
		}
		return ""
	})
}

// mermaid fetches the library with npm, which says its hash.
func mermaid(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	run := func(name string, args ...string) []byte {
		ctx := testkit.Within(t, 3*time.Minute)
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		testkit.Mustf(t, err, "a diagram is new, and drawing it takes %s", name)
		return out
	}
	if packed := run("npm", "pack", "--json", "mermaid@"+mermaidVersion); !bytes.Contains(packed, []byte(mermaidHash)) {
		t.Fatalf("mermaid %s is %s, want the hash %s", mermaidVersion, packed, mermaidHash)
	}
	return run("tar", "-xzOf", "mermaid-"+mermaidVersion+".tgz", "package/dist/mermaid.min.js")
}
