package stock

import (
	"embed"
	"strings"
)

//go:embed doc/*.mmd doc/*.trace.txt
var pictures embed.FS

// Diagrams are two sequence diagrams of a mode, in Mermaid's language and without words to translate.
type Diagrams struct {
	Good  string // two deductions that go well; "" only for the baseline
	Break string // the run that breaks it; "" where nothing does
}

// Diagrams returns the sequence diagrams of a mode, embedded from doc/<mode>.good.mmd and .break.mmd.
func (m Mode) Diagrams() Diagrams {
	good, _ := pictures.ReadFile("doc/" + m.Name + ".good.mmd") // whether one may be missing is for Validate to say
	broken, _ := pictures.ReadFile("doc/" + m.Name + ".break.mmd")
	return Diagrams{Good: string(good), Break: string(broken)}
}

// Trace returns the commands of one deduction by the mode on each of its stores, as 'shop trace --stable' prints them; "" for the
// baseline, and for a mode that the command cannot start the backends of.
func (m Mode) Trace() string {
	text, _ := pictures.ReadFile("doc/" + m.Name + ".trace.txt")
	return string(text)
}

// diagramFault says which diagram is missing; "" = none. A mode that only a repeated request breaks need not show that.
func (m Mode) diagramFault() string {
	broken := ""
	for _, claims := range m.Claims {
		broken += strings.Trim(strings.Join(claims.Row(), ""), "D.–")
	}
	d := m.Diagrams()
	switch {
	case len(m.Claims) > 0 && d.Good == "":
		return "has no doc/" + m.Name + ".good.mmd"
	case broken != "" && d.Break == "":
		return "is broken, and has no doc/" + m.Name + ".break.mmd"
	}
	return ""
}
