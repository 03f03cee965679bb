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
)

// The statements of a sequence diagram that are allowed here, one per line. Mermaid reads "#" as a comment and ";" as the end of a
// statement, so a text may contain them only as an entity (#lt; is "<").
const words = `(?:[^#;]|#\w+;)+`

var (
	participant = regexp.MustCompile(`^participant (\w+)( as ` + words + `)?$`)
	message     = regexp.MustCompile(`^(\w+)(->>|-->>|-x|--x|-\)|--\))(\w+): ` + words + `$`)
	note        = regexp.MustCompile(`^Note over (\w+)(?:,(\w+))?: ` + words + `$`)
	bilingual   = regexp.MustCompile(`^Note over [\w,]+: [[:print:]]*[A-Za-z]{2}[[:print:]]* \| .*\p{Han}.*$`)
	neutral     = regexp.MustCompile(`^Note over [\w,]+: (\d{3}( [a-z_]+)?|[A-Z]{3,} .*)$`)
	branch      = regexp.MustCompile(`^(else|and)( ` + words + `)?$`)
	opening     = regexp.MustCompile(`^(rect rgb\(\d+, \d+, \d+\)|(loop|alt|par) ` + words + `)$`)
)

// diagramFaults parses a diagram strictly and returns its mistakes.
func diagramFaults(text string) (faults []string) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 8 || len(lines) > 25 || lines[0] != "sequenceDiagram" {
		faults = append(faults, fmt.Sprintf("%d lines, the first %q: want 8 to 25, the first sequenceDiagram", len(lines), lines[0]))
	}
	declared, said, silent := map[string]bool{}, map[string]bool{}, map[string]bool{}
	var open []string
	for i, line := range lines[1:] {
		bad := func(why string) { faults = append(faults, fmt.Sprintf("line %d, %q: %s", i+2, line, why)) }
		line = strings.TrimSpace(line)
		var names []string
		if !bilingual.MatchString(line) && strings.ContainsFunc(line, func(r rune) bool { return r > '~' && unicode.IsLetter(r) }) {
			bad("want no letters but ASCII")
		}
		switch {
		case participant.MatchString(line):
			name := participant.FindStringSubmatch(line)[1]
			if declared[name] || len(said) > 0 {
				bad("declared twice, or late")
			}
			declared[name] = true
		case message.MatchString(line):
			m := message.FindStringSubmatch(line)
			names = []string{m[1], m[3]}
			if silent[m[1]] {
				bad(m[1] + " is stopped or dead, and sends nothing")
			}
			said[m[1]], said[m[3]] = true, true
		case note.MatchString(line):
			m := note.FindStringSubmatch(line)
			if !bilingual.MatchString(line) && !neutral.MatchString(line) {
				bad("want a note in both languages, as in English | 中文, unless it is a command or a status")
			}
			switch {
			case strings.Contains(line, "is stopped (SIGSTOP)"), strings.Contains(line, "(kill -9)"):
				silent[m[1]] = true
			case strings.Contains(line, "goes on (SIGCONT)"):
				delete(silent, m[1])
			}
			names = slices.DeleteFunc(m[1:], func(name string) bool { return name == "" })
		case opening.MatchString(line):
			open = append(open, strings.Fields(line)[0])
		case branch.MatchString(line):
			of := map[string]string{"else": "alt", "and": "par"}[strings.Fields(line)[0]]
			if len(open) == 0 || open[len(open)-1] != of {
				bad("outside of " + of)
			}
		case line == "end" && len(open) > 0:
			open = open[:len(open)-1]
		default:
			bad("no statement that is known here")
		}
		for _, name := range names {
			if !declared[name] {
				bad("no participant " + name)
			}
		}
	}
	if len(open) > 0 {
		faults = append(faults, fmt.Sprintf("not ended: %v", open))
	}
	for name := range declared {
		if !said[name] {
			faults = append(faults, name+" says and hears nothing")
		}
	}
	return faults
}

func TestDiagrams(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, m := range stock.Modes() {
		d := m.Diagrams("en")
		for _, suffix := range []string{".good.mmd", ".break.mmd"} {
			source, err := os.ReadFile("doc/" + m.Name + suffix)
			text := string(source)
			if err != nil { // Validate reports a missing diagram
				continue
			}
			used[m.Name+suffix] = true
			for _, fault := range diagramFaults(text) {
				t.Errorf("%s%s: %s", m.Name, suffix, fault)
			}
		}
		if outcomes := fmt.Sprint(m.Claims); d.Break != "" && !strings.ContainsAny(outcomes, "OLDXA") {
			t.Errorf("%s has a .break.mmd, and nothing in %s breaks it", m.Name, outcomes)
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
		" loop TTL / 3\n A-xB: PING\n end\n Note over A,B: the lock expires | 锁过期\n Note over B: 409 sold_out\n alt 1\n A->>B: SET 0\n else 0\n A->>B: DEL\n end\n"
	if faults := diagramFaults(right); faults != nil {
		t.Fatalf("the diagram that the others are made from: %v", faults)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"another kind":      {"sequenceDiagram", "flowchart TD", "the first"},
		"too long":          {"A->>B: GET 1\n", strings.Repeat("A->>B: GET 1\n", 15), "29 lines"},
		"no participant":    {"A->>B: SET 0", "A->>C: SET 0", "no participant C"},
		"in a note":         {"Note over A,B", "Note over A,C", "no participant C"},
		"declared twice":    {"participant B as the other", "participant A", "declared twice"},
		"declared late":     {"A-xB: PING", "participant C", "declared twice, or late"},
		"silent":            {"participant A\n", "participant A\nparticipant C\n", "C says and hears nothing"},
		"another arrow":     {"A->>B: GET 1", "A→B: GET 1", "no statement"},
		"a language":        {"GET 1", "查询 1", "want no letters"},
		"one language":      {"the lock expires | 锁过期", "the lock expires", "in both languages"},
		"shorthand":         {"409 sold_out", "1 + 1 > 1", "in both languages"},
		"it sends, stopped": {"A->>B: GET 1", "Note over A: A is stopped (SIGSTOP) | 暂停\n A->>B: GET 1", "sends nothing"},
		"it sends, dead":    {"A->>B: GET 1", "Note over A: A is killed (kill -9) | 被杀\n A->>B: GET 1", "sends nothing"},
		"another statement": {"A->>B: GET 1", "activate A", "no statement"},
		"a comment":         {"GET 1", "GET stock:{101#3}", "no statement"},
		"two statements":    {"GET 1", "GET 1; SET 0", "no statement"},
		"no text":           {"A->>B: GET 1", "A->>B", "no statement"},
		"not ended":         {"end\n Note", "Note", "not ended: [loop]"},
		"ended twice":       {"A-xB: PING\n end", "A-xB: PING\n end\n end", "no statement"},
		"else of a loop":    {"A-xB: PING", "else 1", "outside of alt"},
		"and of an alt":     {"else 0", "and 0", "outside of par"},
	} {
		text := strings.Replace(right, c.old, c.new, 1)
		if faults := strings.Join(diagramFaults(text), "\n"); !strings.Contains(faults, c.want) {
			t.Errorf("%s: faults %q, want %q", name, faults, c.want)
		}
	}
}

func TestValidateWantsDiagrams(t *testing.T) {
	t.Parallel()
	exact := stock.Claims{Threads: ".", Replicas: "."}
	broken, retried := exact, exact
	broken.Pause, retried.Retry = "O", "D"
	for _, c := range []struct {
		mode   string
		claims stock.Claims
		want   string // "" = valid
	}{
		{"idempotent", exact, ""},
		{"idempotent", retried, ""},
		{"idempotent", broken, "has no doc/idempotent.break.mmd"},
		{"unsafe", broken, ""},
		{"noop", exact, "has no doc/noop.good.mmd"},
	} {
		modes := stock.Modes()
		i := slices.IndexFunc(modes, func(m stock.Mode) bool { return m.Name == c.mode })
		modes[i].Stores = []stock.Store{stock.Redis}
		modes[i].Claims = map[stock.Store]stock.Claims{stock.Redis: c.claims}
		err := stock.Validate(modes)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s with %v: Validate() = %v, want %q", c.mode, c.claims.Row(), err, c.want)
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
	for name, want := range map[string]bool{"lease-seq": true, "kafka": true, "fencing-strict": true, "lua-lock": false, "watchdog": false} {
		if got := named(t, name, nil).Diagrams("en").Survives; got != want {
			t.Errorf("%s: something goes wrong in its first diagram: %t, want %t", name, got, want)
		}
	}
	if survives == 0 || survives > len(stock.Modes())/2 {
		t.Errorf("%d first diagrams in which something goes wrong: the test does not see what it should", survives)
	}
}
