package input

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// walk lists what is in a value: names, values, and the brackets of what is nested.
func walk(v value) ([]string, error) {
	got := []string{kindNames[v.kind] + " " + v.text}
	if v.kind != '[' && v.kind != '{' {
		return got, nil
	}
	got[0] = kindNames[v.kind]
	err := v.each(func(name string, member value) error {
		if v.kind == '{' {
			got = append(got, name)
		}
		inner, err := walk(member)
		got = append(got, inner...)
		return err
	})
	return append(got, "end"), err
}

func TestReader(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]string{
		`{}`:              {"an object", "end"},
		"[ \n] ":          {"an array", "end"},
		`{"a":"é","a":1}`: {"an object", "a", `a string "é"`, "a", "a number 1", "end"},
		`{"a":{"b":"}]\"{\\"},"c":[1,"]"],"e":-1.5e2,"f":"\"x","h":true}`: {
			"an object", "a", "an object", "b", `a string "}]\"{\\"`, "end", "c", "an array", "a number 1", `a string "]"`,
			"end",
			"e", "a number -1.5e2", "f", `a string "\"x"`, "h", "a boolean true", "end",
		},
		"{ \"a\\u0062\" :\t1 ,\r\n\"\" : \"\\ud800\" }": {"an object", "ab", "a number 1", "", `a string "\ud800"`, "end"},
	} {
		got, err := walk(value{kind: jsontext.Value(body).Kind(), text: body})
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", body, err, d)
		}
	}
	for _, body := range []string{``, ` `, `{`, `[1,]`, `{"a"}`, `{"a":}`, `{"a":]`, `{"a":1,}`, `{"a":1]`, `01`, `1 2`,
		`{}x`, `tru`, `"`, "\"\n\"", `{a:1}`, `]`} {
		in := decoder[Deduction]{Fields: DeductionFields, into: &Deduction{}}
		if err := in.json([]byte(body)); err == nil || !strings.Contains(err.Error(), "is not one JSON value: ") {
			t.Errorf("%q = %v", body, err)
		}
	}
}

// BenchmarkJSON reads a body, without the rest of the request.
func BenchmarkJSON(b *testing.B) {
	for _, c := range []struct {
		name, body string
		fails      bool
	}{
		{"single", `{"product_id":101,"quantity":1}`, false},
		{"cart", `{"items":[{"product_id":1}` + strings.Repeat(`,{"product_id":2,"quantity":1}`, 19) + `]}`, false},
		{"unknown", `{"product_id":101,"quantity":1,"price":2}`, true},
		{"blanks", `{"product_id":101,` + strings.Repeat(" ", 1<<10) + `"quantity":1}`, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			raw := []byte(c.body)
			b.ReportAllocs()
			for b.Loop() {
				in := decoder[Deduction]{Fields: DeductionFields, into: &Deduction{}}
				if err := in.json(raw); (err != nil) != c.fails {
					b.Fatal(err)
				}
			}
		})
	}
}
