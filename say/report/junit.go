package report

import (
	"encoding/xml"
	"io"
	"strings"
)

// JUnitCase is a line of a JUnit report, as continuous-integration servers show it.
type JUnitCase struct {
	Name    string
	Seconds float64
	Broken  string // the mistakes found; "" = none
	Unsure  string // why nothing can be said; "" = something can
	Text    string
}

// JUnit writes cases as a suite in the XML of JUnit: a broken case as a failure, an undecided one as an error.
func JUnit(w io.Writer, suite string, cases []JUnitCase) error {
	type problem struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	type line struct {
		Suite   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Seconds float64  `xml:"time,attr"`
		Failure *problem `xml:"failure,omitempty"`
		Error   *problem `xml:"error,omitempty"`
		Text    string   `xml:"system-out,omitempty"`
	}
	all := struct {
		XMLName  xml.Name `xml:"testsuite"`
		Name     string   `xml:"name,attr"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Errors   int      `xml:"errors,attr"`
		Cases    []line   `xml:"testcase"`
	}{Name: suite, Tests: len(cases)}
	why := func(said string, n *int) *problem {
		if said == "" {
			return nil
		}
		*n++
		first, _, _ := strings.Cut(said, "\n")
		return &problem{first, said}
	}
	for _, c := range cases {
		l := line{Suite: suite, Name: c.Name, Seconds: c.Seconds, Text: c.Text, Failure: why(c.Broken, &all.Failures)}
		if c.Broken == "" {
			l.Error = why(c.Unsure, &all.Errors)
		}
		all.Cases = append(all.Cases, l)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	return encoder.Encode(all)
}
