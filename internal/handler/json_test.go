package handler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScanner(t *testing.T) {
	t.Parallel()
	type member struct {
		Name string
		Kind kind
		Text string
	}
	for text, want := range map[string][]member{
		`{}`:    nil,
		"{ \n}": nil,
		`{"a":{"b":"}]\"{\\"},"c":[1,"]",{"d":[]}],"e":-1.5e2,"f":"\"x","g":null,"h":true,"i":false}`: {
			{"a", object, `{"b":"}]\"{\\"}`}, {"c", array, `[1,"]",{"d":[]}]`}, {"e", number, "-1.5e2"},
			{"f", quoted, `"\"x"`}, {"g", null, "null"}, {"h", boolean, "true"}, {"i", boolean, "false"},
		},
		"{ \"a\\u0062\" :\t1 ,\r\n\"\" : {} }": {{"ab", number, "1"}, {"", object, "{}"}},
	} {
		s, ok := openObject(text)
		if !ok {
			t.Errorf("%s is no object", text)
		}
		var got []member
		for {
			name, v, ok := s.next()
			if !ok {
				break
			}
			got = append(got, member{name, v.kind, v.text})
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", text, d)
		}
	}
	for _, text := range []string{``, ` `, `[]`, `1`, `"{}"`, `null`} {
		if _, ok := openObject(text); ok {
			t.Errorf("%q is an object", text)
		}
	}
}
