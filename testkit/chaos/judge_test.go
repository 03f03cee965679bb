//go:build linux

package chaos_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"lastitem/testkit"
)

// loss is a span of time in which a Redis lost the locks.
type loss struct {
	from, to int64
	// A missing counter begins at the clock of Redis, in microseconds: fences after the loss are at least after, and those
	// before it are below before. Between these times the loss came. 0 = it was a failover, after which the counter
	// continues, or goes back.
	after, before uint64
}

// excuses says whether the loss lies between the grants of two holds, in whichever order the answers arrived. After a
// failover the fences do not tell; then it assumes that a grant's message is in flight for at most a TTL.
func (l loss) excuses(first, second hold) bool {
	if l.after == 0 {
		return first.From <= l.to+int64(ttl) && l.from <= second.From
	}
	return min(first.Fence, second.Fence) < l.before && l.after <= max(first.Fence, second.Fence)
}

// late says whether the later of two holds, h, was granted before the loss and the other one after it.
func (l loss) late(before, h hold) bool {
	return l.after > 0 && l.excuses(before, h) && h.From <= l.to+int64(ttl)
}

// verdict is the judge's verdict on the holds of a run.
type verdict struct {
	Holds    int
	Overlaps int           // of two holders, after a loss and within the TTL from it
	Longest  time.Duration // the longest of them, from the loss to the end of the overlap
	Wrong    []string      // violations
}

// readHolds reads a log: each hold with its last line.
func readHolds(t *testing.T, file string) []hold {
	t.Helper()
	f, err := os.Open(file)
	testkit.Must(t, err)
	defer func() { _ = f.Close() }()
	last := map[string]hold{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var h hold
		testkit.Mustf(t, json.Unmarshal(lines.Bytes(), &h), "%s", lines.Text())
		h.To = max(h.To, h.From)
		last[h.ID] = h
	}
	var all []hold
	for _, h := range last {
		all = append(all, h)
	}
	return all
}

// slack is how far the clocks of Redis and of a holder may drift apart in a TTL, plus the delay with which a time may
// be read.
const slack = ttl / 20

// judge compares the holds of each key. Two that overlap are wrong unless Redis lost the lock of one before it granted
// the other: then the first holder may rely on its lock for a TTL after the loss. Fences rise from hold to hold, unless
// there was a failover between them.
func judge(holds []hold, losses []loss) verdict {
	v := verdict{Holds: len(holds)}
	byKey := map[string][]hold{}
	for _, h := range holds {
		byKey[h.Key] = append(byKey[h.Key], h)
	}
	for _, all := range byKey {
		slices.SortFunc(all, func(a, b hold) int { return cmp.Compare(a.From, b.From) })
		longest := 0 // the hold, of those so far, that ends last
		for i, h := range all {
			if i == 0 {
				continue
			}
			before := all[longest]
			if before.To > h.From {
				v.overlap(before, h, losses)
			}
			if h.Fence <= all[i-1].Fence {
				v.backwards(all[i-1], h, losses)
			}
			if h.To > before.To {
				longest = i
			}
		}
	}
	return v
}

// backwards judges a hold whose fence is not above that of the hold before it.
func (v *verdict) backwards(before, h hold, losses []loss) {
	if !slices.ContainsFunc(losses, func(l loss) bool {
		return l.after == 0 && l.excuses(before, h) || l.late(before, h)
	}) {
		v.Wrong = append(v.Wrong, fmt.Sprintf("fence %d after %d: %+v, then %+v", h.Fence, before.Fence, before, h))
	}
}

// overlap judges a hold that began before the end of another.
func (v *verdict) overlap(first, second hold, losses []loss) {
	end, least := min(first.To, second.To), time.Duration(math.MaxInt64)
	for _, l := range losses {
		if l.excuses(first, second) {
			least = min(least, max(0, time.Duration(end-l.to)))
		}
	}
	if least > ttl+slack {
		v.Wrong = append(v.Wrong, fmt.Sprintf("two holders for %v: %+v and %+v", time.Duration(end-second.From), first,
			second))
		return
	}
	v.Overlaps++
	v.Longest = max(v.Longest, least)
}

// The judge reports two holders, a fence that does not rise, and a holder that relies on its lock for more than a TTL
// after a loss; it reports nothing else.
func TestJudge(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	at := func(from, to int64, fence uint64) hold {
		return hold{ID: fmt.Sprint(from, fence), Key: "k", From: from * ms, To: to * ms, Fence: fence}
	}
	one := hold{ID: "x", Key: "other", From: 0, To: 100 * ms, Fence: 1}
	for name, test := range map[string]struct {
		holds    []hold
		losses   []loss
		wrong    int
		overlaps int
	}{
		"one after the other": {[]hold{at(0, 10, 1), at(10, 20, 2), one}, nil, 0, 0},
		"two at a time":       {[]hold{at(0, 11, 1), at(10, 20, 2)}, nil, 1, 0},
		"a short one between": {[]hold{at(0, 100, 1), at(10, 11, 2), at(50, 60, 3)}, nil, 2, 0},
		"killed in the hold":  {[]hold{at(0, 0, 1), at(10, 20, 2)}, nil, 0, 0},
		"the same fence":      {[]hold{at(0, 10, 2), at(20, 30, 2)}, nil, 1, 0},
		"a lower fence":       {[]hold{at(0, 10, 2), at(20, 30, 1)}, nil, 1, 0},
		"after a loss": {[]hold{at(0, 500, 1), at(10, 20, 2)}, []loss{{5 * ms, (5 + 1) * ms, 2, 2}},
			0, 1},
		"a loss before both": {[]hold{at(10, 30, 2), at(20, 40, 3)}, []loss{{5 * ms, (5 + 1) * ms, 2, 2}},
			1, 0},
		"a grant that came after the loss": {[]hold{at(10, 30, 1), at(20, 40, 2)}, []loss{{5 * ms, (5 + 1) * ms, 2, 2}},
			0, 1},
		"a grant during the loss": {[]hold{at(10, 30, 3), at(20, 40, 5)}, []loss{{5 * ms, (5 + 1) * ms, 2, 4}},
			0, 1},
		"two grants during the loss": {[]hold{at(10, 30, 4), at(20, 40, 5)}, []loss{{5 * ms, (5 + 1) * ms, 2, 4}},
			1, 0},
		"and after the rival's": {[]hold{at(10, 30, 3), at(20, 40, 1)}, []loss{{5 * ms, (5 + 1) * ms, 2, 2}},
			0, 1},
		"a failover before both": {[]hold{at(700, 730, 1), at(720, 740, 2)},
			[]loss{{5 * ms, (5 + 1) * ms, 0, 0}}, 1, 0},
		"a loss after both had it": {[]hold{at(10, 30, 1), at(20, 40, 2)},
			[]loss{{25 * ms, (25 + 1) * ms, 9, 9}}, 1, 0},
		"a belief that outlives the TTL": {[]hold{at(0, 900, 1), at(10, 800, 2)}, []loss{{5 * ms, (5 + 1) * ms, 2, 2}},
			1, 0},
		"a lower fence after a failover": {[]hold{at(0, 10, 2), at(20, 30, 1)}, []loss{{15 * ms, (15 + 1) * ms, 0, 0}},
			0, 0},
		"and the higher one came late": {[]hold{at(500, 510, 2), at(520, 530, 1)},
			[]loss{{15 * ms, (15 + 1) * ms, 0, 0}}, 0, 0},
		"and later than a TTL": {[]hold{at(700, 710, 2), at(720, 730, 1)},
			[]loss{{15 * ms, (15 + 1) * ms, 0, 0}}, 1, 0},
		"a lower fence after an empty restart": {[]hold{at(0, 10, 2), at(20, 30, 1)}, []loss{{15 * ms, (15 + 1) * ms, 5, 5}},
			1, 0},
		"a lower fence before another failover": {[]hold{at(0, 10, 2), at(20, 30, 1)}, []loss{{40 * ms, (40 + 1) * ms, 0, 0}},
			1, 0},
	} {
		v := judge(test.holds, test.losses)
		if len(v.Wrong) != test.wrong || v.Overlaps != test.overlaps {
			t.Errorf("%s: %d wrong, %d overlaps, want %d and %d: %q", name, len(v.Wrong), v.Overlaps, test.wrong, test.overlaps,
				v.Wrong)
		}
	}
}
