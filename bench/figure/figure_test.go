package figure

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"lastitem/testkit"
)

func TestMedian(t *testing.T) {
	tests := []struct {
		values []Number
		want   Number
	}{
		{nil, None},
		{[]Number{3}, 3},
		{[]Number{3, 1, 2}, 2},
		{[]Number{4, 1, 2, 3}, 2.5},
		{[]Number{None, 7, None}, 7},
		{[]Number{1, 2, Number(math.Inf(1))}, 2},
	}
	for _, tt := range tests {
		if got := Median(tt.values); got != tt.want && (got.Known() || tt.want.Known()) {
			t.Errorf("Median(%v) = %v, want %v", tt.values, got, tt.want)
		}
	}
}

func TestNumberJSON(t *testing.T) {
	tests := []struct {
		n    Number
		want string
	}{
		{0, "0"}, {None, "null"}, {Number(math.Inf(1)), "null"},
		{1234567.8, "1.23457e+06"}, {0.000123456789, "0.000123457"}, {-2.5, "-2.5"},
	}
	for _, tt := range tests {
		got, err := json.Marshal(tt.n)
		var back, want float64
		if err != nil || json.Unmarshal(got, &back) != nil || json.Unmarshal([]byte(tt.want), &want) != nil || back != want {
			t.Errorf("JSON of %v = %s, %v, want %s", float64(tt.n), got, err, tt.want)
		}
	}
}

func TestRounds(t *testing.T) {
	const rate = "rate"
	mine := Rounds{{rate: 200}, {rate: 2000}, {rate: 30, "only here": 7}}
	base := Rounds{{rate: 100}, {rate: 1000}, {rate: 10}}
	if got := mine.Against(base, rate); got != 2 {
		t.Errorf("Against = %v, want 2, the median of 2, 2, 3", got)
	}
	if got := mine.Against(nil, rate); got.Known() {
		t.Errorf("Against nobody = %v, want none", got)
	}
	m := mine.Median()
	if m.Of(rate) != 200 || m.Of("only here") != 7 || m.Of("nowhere").Known() {
		t.Errorf("Median = %v, want 200, 7 and none", m)
	}
	testkit.Is(t, mine.Spread(rate), Number(1970.0/200), "Spread")
	if got := mine.Spread("only here"); got.Known() {
		t.Errorf("Spread of one value = %v, want none", got)
	}
}

func TestTarget(t *testing.T) {
	tests := []struct {
		atLeast         bool
		limit, measured float64
		want            string
	}{
		{true, 0.7, 0.71, Met}, {true, 0.7, 0.7, Met}, {true, 0.7, 0.69, Missed},
		{false, 5, 4, Met}, {false, 5, 5, Met}, {false, 5, 6, Missed}, {true, 1, float64(None), Unmeasured},
	}
	for _, tt := range tests {
		target := Target{AtLeast: tt.atLeast, Limit: tt.limit}
		target.Judge(Number(tt.measured), "")
		testkit.Is(t, target.Verdict, tt.want, "%v of at least %v", tt, tt.atLeast)
	}
}

// A target that was not measured is printed if it has a note, and counted in any case.
func TestPrintTargets(t *testing.T) {
	all := []Target{{Measure: "a", AtLeast: true, Limit: 1}, {Measure: "b", Limit: 1}, {Measure: "c"}, {Measure: "d"}}
	all[0].Judge(2, "2/s")
	all[1].Judge(2, "")
	all[2].Judge(None, "no such thing")
	all[3].Judge(None, "")
	var out bytes.Buffer
	PrintTargets(&out, "title", all)
	for _, want := range []string{
		"== title ==", ">= 1", "met", "2/s", "MISSED", "no such thing", "1 of 2 targets met; 2 not measured",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\nd ") {
		t.Errorf("d was not measured, and there is nothing to say of it:\n%s", out.String())
	}
}
