package stock

import (
	"embed"
	"regexp"
	"strings"
)

//go:embed doc/*.mmd doc/*.txt
var pictures embed.FS

// Diagrams are two sequence diagrams of a mode, in Mermaid's language.
type Diagrams struct {
	Good     string // two deductions that go well; "" only for the baseline
	Break    string // the run that breaks it; "" if nothing does
	Survives bool   // something goes wrong in Good, and the mode survives it
}

// Diagrams returns the sequence diagrams of a mode in a language, "en" or "zh", from doc/<mode>.mmd, where an
// empty line stands between the two.
func (m Mode) Diagrams(lang string) Diagrams {
	source, _ := pictures.ReadFile("doc/" + m.Name + ".mmd") // Validate reports a missing one
	good, broken, _ := strings.Cut(string(source), "\n\n")
	return Diagrams{Good: noted(good, lang), Break: noted(broken, lang), Survives: goesWrong.MatchString(good)}
}

var (
	// bilingual is a note in both languages, as "Note over A: in English | 中文".
	bilingual = regexp.MustCompile(`(?m)^( *Note over [^:]*: )(.*) \| (.*)$`)
	// goesWrong matches the notes of a diagram that describe a fault.
	goesWrong = regexp.MustCompile(`Note over [^:]*: .*(expires|SIGSTOP|kill -9|failover)`)
)

// noted returns a diagram whose notes are in one language.
func noted(diagram, lang string) string {
	if lang == "zh" {
		return bilingual.ReplaceAllString(diagram, "$1$3")
	}
	return bilingual.ReplaceAllString(diagram, "$1$2")
}

// Trace returns the commands of one deduction by the mode on each of its stores, as 'shop trace --stable' prints them;
// "" for the baseline, and for a mode that the command cannot start the backends of.
func (m Mode) Trace() string {
	text, _ := pictures.ReadFile("doc/" + m.Name + ".trace.txt")
	return string(text)
}

// HoldTrace returns the commands of a deduction that holds its lock for two and a half TTLs while a rival waits, as
// 'shop trace --hold --rival --stable' prints them; "" for most modes.
func (m Mode) HoldTrace() string {
	text, _ := pictures.ReadFile("doc/" + m.Name + ".hold.txt")
	return string(text)
}

// diagramFault says which diagram is missing; "" = none. A mode that only a repeated request breaks need not show that.
func (m Mode) diagramFault() string {
	broken := ""
	for store := range m.Claims {
		broken += strings.Trim(strings.Join(m.Row(store), ""), "D.–")
	}
	d := m.Diagrams("en")
	switch {
	case len(m.Claims) > 0 && d.Good == "":
		return "has no doc/" + m.Name + ".mmd"
	case broken != "" && d.Break == "":
		return "is broken, and has no second diagram in doc/" + m.Name + ".mmd"
	}
	return ""
}
