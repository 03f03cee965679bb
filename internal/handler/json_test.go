package handler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// walk lists what a reader finds in a body: names, values, and the brackets of what is nested.
func walk(r *reader) (got []string, err error) {
	v, err := r.value()
	if err != nil {
		return nil, err
	}
	got = []string{kindNames[v.kind] + " " + v.text}
	if v.in == nil {
		return got, nil
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	for {
		more, err := r.more()
		if err != nil || !more {
			return append(got, "end"), err
		}
		if v.kind == object {
			name, err := r.name()
			if err != nil {
				return nil, err
			}
			got = append(got, name)
		}
		inner, err := walk(r)
		if err != nil {
			return nil, err
		}
		got = append(got, inner...)
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]string{
		`{}`:              {"an object ", "end"},
		"[ \n] ":          {"an array ", "end"},
		` "x"`:            {`a string "x"`},
		`null`:            {"null null"},
		`{"a":"é","a":1}`: {"an object ", "a", `a string "é"`, "a", "a number 1", "end"},
		`{"a":{"b":"}]\"{\\"},"c":[1,"]"],"e":-1.5e2,"f":"\"x","h":true}`: {
			"an object ", "a", "an object ", "b", `a string "}]\"{\\"`, "end", "c", "an array ", "a number 1", `a string "]"`, "end",
			"e", "a number -1.5e2", "f", `a string "\"x"`, "h", "a boolean true", "end",
		},
		"{ \"a\\u0062\" :\t1 ,\r\n\"\" : \"\\ud800\" }": {"an object ", "ab", "a number 1", "", `a string "\ud800"`, "end"},
	} {
		var r reader
		r.start([]byte(body))
		got, err := walk(&r)
		if err == nil {
			err = r.end()
		}
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", body, err, d)
		}
	}
	for _, body := range []string{``, ` `, `{`, `[1,]`, `{"a"}`, `{"a":}`, `{"a":]`, `{"a":1,}`, `{"a":1]`, `01`, `1 2`, `{}x`, `tru`, `"`, "\"\n\"", `{a:1}`, `]`} {
		var r reader
		r.start([]byte(body))
		_, err := walk(&r)
		if err == nil {
			err = r.end()
		}
		if err != errSyntax { //nolint:errorlint // the reader has this error only
			t.Errorf("%q = %v, want %v", body, err, errSyntax)
		}
	}
}
