package rig

import (
	"testing"
	"time"
)

func TestSilence(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	held := []Event{{At: 100 * ms, Actor: "A", What: Held}, {At: 900 * ms, Actor: "A", What: Passed}}
	paused := []Event{held[0], {At: 110 * ms, Actor: "A", What: Paused}, {At: 890 * ms, Actor: "A", What: Resumed}, held[1]}
	for name, test := range map[string]struct {
		events []Event
		sent   map[string][]time.Duration
		want   time.Duration
	}{
		"nobody is held":           {nil, map[string][]time.Duration{"A": {0, 5000 * ms}}, 0},
		"it renews":                {held, map[string][]time.Duration{"A": {50 * ms, 300 * ms, 500 * ms, 700 * ms, 950 * ms}}, 200 * ms},
		"over two connections":     {held, map[string][]time.Duration{"A": {700 * ms, 300 * ms, 500 * ms}}, 200 * ms},
		"the middle renewal fails": {held, map[string][]time.Duration{"A": {300 * ms, 850 * ms}}, 550 * ms},
		"it never renews":          {held, nil, 0},
		"only another one sends":   {held, map[string][]time.Duration{"B": {300 * ms, 500 * ms, 700 * ms}}, 0},
		"stopped on purpose":       {paused, nil, 0},
		"held to the end":          {held[:1], map[string][]time.Duration{"A": {5000 * ms}}, 0},
	} {
		if got := silence(test.events, test.sent); got != test.want {
			t.Errorf("%s: silence() = %v, want %v", name, got, test.want)
		}
	}
}
