package stock_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"lastitem/internal/stock"
	"lastitem/judge"
	"lastitem/testkit"
)

// Mermaid draws each diagram for the documentation, and so knows its statements. It takes "#" for a comment and ";" for
// the end of a statement, so a text may contain them only as an entity (#lt; is "<"), and it declares by itself who was
// not declared.
var (
	entity      = regexp.MustCompile(`#\w+;`)
	participant = regexp.MustCompile(`^participant (\w+)`)
	message     = regexp.MustCompile(`^(\w+)-[->x)]+(\w+): `)
	note        = regexp.MustCompile(`^Note over (\w+)(?:,(\w+))?: `)
	bilingual   = regexp.MustCompile(`^Note over [\w,]+: [[:print:]]*[A-Za-z]{2}[[:print:]]* \| .*\p{Han}.*$`)
	neutral     = regexp.MustCompile(`^Note over [\w,]+: (\d{3}( [a-z_]+)?|[A-Z]{3,} .*)$`)
)

// diagramFaults returns the mistakes of a diagram that Mermaid draws all the same.
func diagramFaults(text string) (faults []string) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 8 || len(lines) > 25 {
		faults = append(faults, fmt.Sprintf("%d lines: want 8 to 25", len(lines)))
	}
	declared, silent := map[string]bool{"": true}, map[string]bool{}
	for i, line := range lines {
		bad := func(why string) { faults = append(faults, fmt.Sprintf("line %d, %q: %s", i+1, line, why)) }
		line = strings.TrimSpace(line)
		if !bilingual.MatchString(line) && strings.ContainsFunc(line, func(r rune) bool {
			return r > '~' && unicode.IsLetter(r)
		}) {
			bad("want no letters but ASCII")
		}
		if strings.ContainsAny(entity.ReplaceAllString(line, ""), "#;") {
			bad("want # and ; as entities")
		}
		var names []string
		if m := participant.FindStringSubmatch(line); m != nil {
			declared[m[1]] = true
		}
		if names = message.FindStringSubmatch(line); len(names) > 1 && silent[names[1]] {
			bad(names[1] + " is stopped or dead, and sends nothing")
		}
		if m := note.FindStringSubmatch(line); m != nil {
			names = m
			if !bilingual.MatchString(line) && !neutral.MatchString(line) {
				bad("want a note in both languages, as in English | 中文, unless it is a command or a status")
			}
			switch {
			case strings.Contains(line, "is stopped (SIGSTOP)"), strings.Contains(line, "(kill -9)"):
				silent[m[1]] = true
			case strings.Contains(line, "goes on (SIGCONT)"):
				delete(silent, m[1])
			}
		}
		for j, name := range names {
			if j > 0 && !declared[name] {
				bad("no participant " + name)
			}
		}
	}
	return faults
}

func TestDiagrams(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, m := range stock.Modes() {
		d := m.Diagrams("en")
		source, err := os.ReadFile("doc/" + m.Name + ".mmd")
		if err != nil { // Validate reports a missing one
			continue
		}
		used[m.Name+".mmd"] = true
		for text := range strings.SplitSeq(string(source), "\n\n") {
			for _, fault := range diagramFaults(text) {
				t.Errorf("%s.mmd: %s", m.Name, fault)
			}
		}
		if outcomes := fmt.Sprint(m.Claims); d.Break != "" && !strings.ContainsAny(outcomes, judge.Letters) {
			t.Errorf("%s has a diagram that breaks it, and nothing in %s breaks it", m.Name, outcomes)
		}
	}
	files, err := filepath.Glob("doc/*.mmd")
	if err != nil || len(files) == 0 {
		t.Fatalf("doc/*.mmd: %v, %v", files, err)
	}
	for _, file := range files {
		if !used[filepath.Base(file)] {
			t.Errorf("%s is no mode's", file)
		}
	}
}

// A mutant for each thing that can be wrong with a diagram.
func TestDiagramFaults(t *testing.T) {
	t.Parallel()
	const right = "sequenceDiagram\n participant A\n participant B as the other\n A->>B: GET 1\n B-->>A: 1\n" +
		" A-xB: PING\n Note over A,B: the lock expires | 锁过期\n Note over B: 409 sold_out\n A->>B: SET 0\n"
	if faults := diagramFaults(right); faults != nil {
		t.Fatalf("the diagram that the others are made from: %v", faults)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"too long":          {"A->>B: GET 1\n", strings.Repeat("A->>B: GET 1\n", 18), "26 lines"},
		"no participant":    {"A->>B: SET 0", "A->>C: SET 0", "no participant C"},
		"in a note":         {"Note over A,B", "Note over A,C", "no participant C"},
		"a language":        {"GET 1", "查询 1", "want no letters"},
		"one language":      {"the lock expires | 锁过期", "the lock expires", "in both languages"},
		"shorthand":         {"409 sold_out", "1 + 1 > 1", "in both languages"},
		"it sends, stopped": {"A->>B: GET 1", "Note over A: A is stopped (SIGSTOP) | 暂停\n A->>B: GET 1", "sends nothing"},
		"it sends, dead":    {"A->>B: GET 1", "Note over A: A is killed (kill -9) | 被杀\n A->>B: GET 1", "sends nothing"},
		"a comment":         {"GET 1", "GET stock:{101#3}", "as entities"},
		"two statements":    {"GET 1", "GET 1; SET 0", "as entities"},
	} {
		text := strings.Replace(right, c.old, c.new, 1)
		if faults := strings.Join(diagramFaults(text), "\n"); !strings.Contains(faults, c.want) {
			t.Errorf("%s: faults %q, want %q", name, faults, c.want)
		}
	}
}

func TestValidateWantsDiagrams(t *testing.T) {
	t.Parallel()
	exact := allExact
	broken, retried := exact, exact
	broken.Pause, retried.Retry = "O", "D"
	for _, c := range []struct {
		mode   string
		claims stock.Claims
		want   string // "" = valid
	}{
		{"idempotent", exact, ""},
		{"idempotent", retried, ""},
		{"idempotent", broken, "has no second diagram in doc/idempotent.mmd"},
		{"unsafe", broken, ""},
		{"noop", exact, "has no doc/noop.mmd"},
	} {
		modes := stock.Modes()
		i := slices.IndexFunc(modes, func(m stock.Mode) bool { return m.Name == c.mode })
		modes[i].Stores = []stock.Store{stock.Redis}
		modes[i].Claims = map[stock.Store]stock.Claims{stock.Redis: c.claims}
		err := stock.Validate(modes)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s with %v: Validate() = %v, want %q", c.mode, c.claims, err, c.want)
		}
	}
}

// The notes of a diagram are in the language that is asked for, and a diagram in which something goes wrong says so.
func TestDiagramsSpeakOneLanguage(t *testing.T) {
	t.Parallel()
	han := regexp.MustCompile(`\p{Han}`)
	survives := 0
	for _, m := range stock.Modes() {
		en, zh := m.Diagrams("en"), m.Diagrams("zh")
		for _, text := range []string{en.Good, en.Break, zh.Good, zh.Break} {
			if strings.Contains(text, " | ") {
				t.Errorf("%s: a note in both languages:\n%s", m.Name, text)
			}
		}
		if han.MatchString(en.Good + en.Break) {
			t.Errorf("%s: Chinese in the English diagrams", m.Name)
		}
		if en.Break != "" && !han.MatchString(zh.Break) && strings.Contains(zh.Break, "Note over") {
			t.Errorf("%s: no Chinese in the Chinese diagram:\n%s", m.Name, zh.Break)
		}
		if en.Survives {
			survives++
		}
	}
	for name, want := range map[string]bool{"lease-seq": true, "kafka": true, "fencing-strict": true, "lua-lock": false,
		"watchdog": false} {
		testkit.Is(t, named(t, name, nil).Diagrams("en").Survives, want,
			"%s: something goes wrong in its first diagram", name)
	}
	if survives == 0 || survives > len(stock.Modes())/2 {
		t.Errorf("%d first diagrams in which something goes wrong: the test does not see what it should", survives)
	}
}
