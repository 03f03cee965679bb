package report

import (
	"encoding/xml"
	"strings"
	"testing"

	"lastitem/testkit"
)

func TestJUnit(t *testing.T) {
	var b strings.Builder
	testkit.Must(t, JUnit(&b, "lastitem", []JUnitCase{
		{Name: "right", Seconds: 1.5, Text: "<EXACT>"}, {Name: "wrong", Broken: "oversold 3\nof 50", Unsure: "x"},
		{Name: "unsure", Unsure: "data is missing"},
	}))
	var got struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Text    string `xml:"system-out"`
			Failure struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
			Error struct {
				Message string `xml:"message,attr"`
			} `xml:"error"`
		} `xml:"testcase"`
	}
	testkit.Must(t, xml.Unmarshal([]byte(b.String()), &got))
	c := got.Cases
	testkit.Same(t, []int{got.Tests, got.Failures, got.Errors}, []int{3, 1, 1}, "tests, failures, errors of %s", &b)
	testkit.Same(t, []string{c[0].Text, c[0].Failure.Message, c[1].Failure.Message, c[1].Error.Message,
		c[2].Error.Message},
		[]string{"<EXACT>", "", "oversold 3", "", "data is missing"}, "texts of %s", &b)
}
