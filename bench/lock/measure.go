package main

import (
	"cmp"
	"slices"
	"time"
)

// The measures, by their names in the JSON.
const (
	mRate          = "acquisitions_per_s"
	mOwnerChanges  = "owner_changes_per_s"
	mCommands      = "network_commands_per_acquisition"
	mPair50        = "acquire_and_release_p50_us"
	mPair99        = "acquire_and_release_p99_us"
	mHandoff50     = "handoff_p50_us"
	mHandoff99     = "handoff_p99_us"
	mWait50        = "wait_p50_ms"
	mWait99        = "wait_p99_ms"
	mWaitMax       = "wait_max_ms"
	mMin           = "least_per_goroutine"
	mMax           = "most_per_goroutine"
	mMaxMin        = "max_to_min"
	mJain          = "jain"
	mRTT           = "ping_rtt_ms"
	mHandoffTrips  = "handoff_round_trips"
	mParked        = "commands_per_s_parked"
	mRenewals      = "renewal_commands_per_s"
	mBytes         = "bytes_per_held_lock"
	mGoroutines    = "goroutines_for_all_locks"
	mSpread        = "spread"        // of mRate over the rounds: (max - min) / median
	mOthers        = "cpu_of_others" // share of all CPU time that other programs used meanwhile
	mErrors        = "errors"
	mViolations    = "exclusion_violations"
	mSectionsTotal = "sections"
)

// circumstances are measures of the run rather than of the contender: a ratio of them says nothing.
var circumstances = []string{mSpread, mOthers, mErrors, mViolations, mSectionsTotal, mRTT}

// measures are the numbers of one window, or their medians.
type measures map[string]number

// of is none where a measure is not there.
func (m measures) of(name string) number {
	if v, ok := m[name]; ok {
		return v
	}
	return none
}

// sumUp makes numbers of what the workers of one window report.
func sumUp(s scenario, window, rtt time.Duration, reports []*report) measures {
	var all report
	for _, r := range reports {
		all.Sections = append(all.Sections, r.Sections...)
		all.Pairs = append(all.Pairs, r.Pairs...)
		all.Cut = append(all.Cut, r.Cut...)
		all.Done = append(all.Done, r.Done...)
		all.Commands += r.Commands
		all.Errors += r.Errors
		all.Bytes += r.Bytes
		all.Growth += r.Growth
	}
	perSecond := number(1 / window.Seconds())
	m := measures{mErrors: number(all.Errors)}
	switch s.kind {
	case kindPark:
		m[mParked] = number(all.Commands) * perSecond
		return m
	case kindHold:
		m[mRenewals] = number(all.Commands) * perSecond
		m[mBytes], m[mGoroutines] = number(all.Bytes), number(all.Growth)
		return m
	}
	done := int64(0)
	for _, d := range all.Done {
		done += d
	}
	m[mRate] = number(done) * perSecond
	m[mCommands] = ratio(number(all.Commands), number(done))
	if s.kind == kindFree {
		m[mPair50], m[mPair99] = micro(percentile(all.Pairs, 50)), micro(percentile(all.Pairs, 99))
		return m
	}
	least, most := slices.Min(all.Done), slices.Max(all.Done)
	m[mMin], m[mMax], m[mMaxMin], m[mJain] = number(least), number(most), ratio(number(most), number(least)), jain(all.Done)
	m.sections(all, perSecond)
	if rtt > 0 {
		m[mRTT] = milli(int64(rtt))
		m[mHandoffTrips] = m[mHandoff50] / micro(int64(rtt))
	}
	return m
}

// sections adds what the order of the holds of the hot key shows. The counter numbers them; the window is known by the
// first and the last that count.
func (m measures) sections(all report, perSecond number) {
	slices.SortFunc(all.Sections, func(a, b section) int { return cmp.Compare(a.Number, b.Number) })
	waits := all.Cut
	var handoffs []int64
	changes, violations, last := 0, 0, int64(0)
	for i, s := range all.Sections {
		if s.Number != last+1 { // missing, or written by two: somebody else was inside
			violations++
		}
		last = s.Number
		if !s.Counts {
			continue
		}
		waits = append(waits, s.Acquired-s.Asked)
		if i > 0 {
			before := all.Sections[i-1]
			handoffs = append(handoffs, s.Acquired-before.Leaving)
			if before.Owner != s.Owner {
				changes++
			}
		}
	}
	m[mOwnerChanges] = number(changes) * perSecond
	m[mHandoff50], m[mHandoff99] = micro(percentile(handoffs, 50)), micro(percentile(handoffs, 99))
	m[mWait50], m[mWait99], m[mWaitMax] = milli(percentile(waits, 50)), milli(percentile(waits, 99)), milli(percentile(waits, 100))
	m[mViolations], m[mSectionsTotal] = number(violations), number(len(all.Sections))
}

func micro(ns int64) number { return number(ns) / 1e3 }
func milli(ns int64) number { return number(ns) / 1e6 }

// A result is what one contender did in one scenario.
type result struct {
	Contender string     `json:"contender"`
	Median    measures   `json:"median"`
	ToRaw     measures   `json:"ratio_to_raw"`     // of each measure
	ToCeiling measures   `json:"ratio_to_ceiling"` // the same
	Rounds    []measures `json:"rounds"`
	Failed    string     `json:"first_error,omitempty"`
}

// An outcome is one scenario with all its results.
type outcome struct {
	Name    string    `json:"name"`
	Title   string    `json:"title"`
	Results []*result `json:"results"`

	scenario scenario
}

func (o *outcome) of(contender string) *result {
	for _, r := range o.Results {
		if r.Contender == contender {
			return r
		}
	}
	return &result{Contender: contender}
}

// conclude adds the medians and the ratios to the bounds.
func (o *outcome) conclude() {
	for _, r := range o.Results {
		r.Median = measures{}
		if len(r.Rounds) == 0 {
			continue
		}
		for name := range r.Rounds[0] {
			r.Median[name] = median(r.all(name))
		}
		// Of what must not happen at all, the worst round counts.
		for _, name := range []string{mErrors, mViolations} {
			if _, ok := r.Median[name]; ok {
				r.Median[name] = slices.Max(r.all(name))
			}
		}
		if rates := r.all(mRate); len(rates) > 1 {
			r.Median[mSpread] = ratio(slices.Max(rates)-slices.Min(rates), median(rates))
		}
	}
	for _, r := range o.Results {
		r.ToRaw, r.ToCeiling = measures{}, measures{}
		for name := range r.Median {
			if slices.Contains(circumstances, name) {
				continue
			}
			r.ToRaw[name], r.ToCeiling[name] = r.against(o.of(rawName), name), r.against(o.of(ceilingName), name)
		}
	}
}

func (r *result) all(name string) []number {
	values := make([]number, len(r.Rounds))
	for i, m := range r.Rounds {
		values[i] = m.of(name)
	}
	return values
}

// against is the median of the ratios of a measure between two results: round by round, since the machine's pace changes
// between rounds.
func (r *result) against(other *result, name string) number {
	var ratios []number
	for i := range min(len(r.Rounds), len(other.Rounds)) {
		ratios = append(ratios, ratio(r.Rounds[i].of(name), other.Rounds[i].of(name)))
	}
	return median(ratios)
}

// exact says whether nobody was ever inside with somebody else.
func (r *result) exact() bool { return !(r.Median.of(mViolations) > 0) }
