package main

import (
	"cmp"
	"slices"
	"time"

	"lastitem/bench/figure"
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
	mRecovery      = "recovery_ms" // from a promotion to the next acquisition
	mFailures      = "failed_operations"
	mToSingle      = "ratio_to_one_master"
	mSpread        = "spread"        // of mRate over the rounds: (max - min) / median
	mOthers        = "cpu_of_others" // share of all CPU time that other programs used meanwhile
	mClientCPU     = "client_cpu_us_per_acquisition"
	mServerCPU     = "server_cpu_us_per_acquisition"
	mErrors        = "errors"
	mViolations    = "exclusion_violations"
	mSectionsTotal = "sections"
)

// circumstances are measures of the run and not of the contender: their ratios mean nothing.
var circumstances = []string{mSpread, mOthers, mErrors, mViolations, mSectionsTotal, mRTT, mToSingle}

// sumUp computes the measures of one window from the workers' reports.
func sumUp(s scenario, window, rtt time.Duration, reports []*report) figure.Measures {
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
	perSecond := figure.Number(1 / window.Seconds())
	m := figure.Measures{mErrors: figure.Number(all.Errors)}
	switch s.kind {
	case kindFailover:
		return sumUpFailover(all, perSecond)
	case kindPark:
		m[mParked] = figure.Number(all.Commands) * perSecond
		return m
	case kindHold:
		m[mRenewals] = figure.Number(all.Commands) * perSecond
		m[mBytes], m[mGoroutines] = figure.Number(all.Bytes), figure.Number(all.Growth)
		return m
	}
	done := all.total()
	m[mRate] = figure.Number(done) * perSecond
	m[mCommands] = figure.Ratio(figure.Number(all.Commands), figure.Number(done))
	if s.loop() == kindFree {
		m[mPair50], m[mPair99] = micro(percentile(all.Pairs, 50)), micro(percentile(all.Pairs, 99))
		return m
	}
	least, most := slices.Min(all.Done), slices.Max(all.Done)
	m[mMin], m[mMax], m[mJain] = figure.Number(least), figure.Number(most), jain(all.Done)
	m[mMaxMin] = figure.Ratio(m[mMax], m[mMin])
	addSections(m, all, perSecond)
	if rtt > 0 {
		m[mRTT] = milli(int64(rtt))
		m[mHandoffTrips] = m[mHandoff50] / micro(int64(rtt))
	}
	return m
}

// sumUpFailover does not check the order of the holds, because the failover loses unreplicated writes of the locks and
// of the counter.
func sumUpFailover(all report, perSecond figure.Number) figure.Measures {
	waits := all.Cut
	for _, s := range all.Sections {
		waits = append(waits, s.Acquired-s.Asked)
	}
	return figure.Measures{mRate: figure.Number(all.total()) * perSecond, mFailures: figure.Number(all.Errors),
		mWaitMax: milli(percentile(waits, 100))}
}

// recovery returns the time from a promotion until the first acquisition whose critical section succeeded. If there was
// none, it is the rest of the window, a lower bound.
func recovery(reports []*report, promoted int64, window time.Duration) figure.Number {
	first := int64(0)
	for _, r := range reports {
		for _, s := range r.Sections {
			if s.Acquired >= promoted && (first == 0 || s.Acquired < first) {
				first = s.Acquired
			}
		}
	}
	if first == 0 {
		return milli(int64(window - strikeAt - detection))
	}
	return milli(first - promoted)
}

// charge adds the CPU time of a timed window: per acquisition with its section, for the clients and the server, and the
// share of other programs.
func charge(m figure.Measures, cpu spent, window time.Duration) {
	m[mOthers] = cpu.others
	m[mClientCPU], m[mServerCPU] = figure.None, figure.None
	acquisitions := m.Of(mRate) * figure.Number(window.Seconds())
	if !(acquisitions > 0) {
		return
	}
	m[mClientCPU], m[mServerCPU] = figure.Ratio(cpu.clients, acquisitions), figure.Ratio(cpu.server, acquisitions)
}

// addSections adds the measures from the order of the holds of the hot key. The counter numbers the holds; the window
// ranges from the first to the last hold that counts.
func addSections(m figure.Measures, all report, perSecond figure.Number) {
	slices.SortFunc(all.Sections, func(a, b section) int { return cmp.Compare(a.Number, b.Number) })
	waits := all.Cut
	var handoffs []int64
	changes, violations, last := 0, 0, int64(0)
	for i, s := range all.Sections {
		if s.Number != last+1 { // missing, or written twice: two holders were inside
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
	m[mOwnerChanges] = figure.Number(changes) * perSecond
	m[mHandoff50], m[mHandoff99] = micro(percentile(handoffs, 50)), micro(percentile(handoffs, 99))
	m[mWait50], m[mWait99], m[mWaitMax] = milli(percentile(waits, 50)), milli(percentile(waits, 99)),
		milli(percentile(waits, 100))
	m[mViolations], m[mSectionsTotal] = figure.Number(violations), figure.Number(len(all.Sections))
}

func micro(ns int64) figure.Number { return figure.Number(ns) / 1e3 }
func milli(ns int64) figure.Number { return figure.Number(ns) / 1e6 }

// A result has the measures of one contender in one scenario.
type result struct {
	Contender string          `json:"contender"`
	Median    figure.Measures `json:"median"`
	ToRaw     figure.Measures `json:"ratio_to_raw"`     // of each measure
	ToCeiling figure.Measures `json:"ratio_to_ceiling"` // the same
	Rounds    figure.Rounds   `json:"rounds"`
	Failed    string          `json:"first_error,omitempty"`
}

// An outcome is one scenario with all its results.
type outcome struct {
	Name    string    `json:"name"`
	Title   string    `json:"title"`
	Results []*result `json:"results"`

	scenario scenario
}

func (o *outcome) of(contender string) *result {
	if i := slices.IndexFunc(o.Results, func(r *result) bool { return r.Contender == contender }); i >= 0 {
		return o.Results[i]
	}
	return &result{Contender: contender}
}

// conclude adds the medians and the ratios to the bounds.
func (o *outcome) conclude() {
	for _, r := range o.Results {
		r.Median = r.Rounds.Median()
		// For events that must not happen, the worst round counts.
		for _, name := range []string{mErrors, mViolations} {
			if _, ok := r.Median[name]; ok {
				r.Median[name] = slices.Max(r.Rounds.All(name))
			}
		}
		if spread := r.Rounds.Spread(mRate); spread.Known() {
			r.Median[mSpread] = spread
		}
	}
	for _, r := range o.Results {
		r.ToRaw, r.ToCeiling = figure.Measures{}, figure.Measures{}
		for name := range r.Median {
			if slices.Contains(circumstances, name) {
				continue
			}
			if c, err := contenderOf(r.Contender); err == nil && c.single != "" && name == mRate {
				r.Median[mToSingle] = r.against(o.of(c.single), mRate)
			}
			r.ToRaw[name], r.ToCeiling[name] = r.against(o.of(rawName), name), r.against(o.of(ceilingName), name)
		}
	}
}

// against returns the median of the ratios of a measure between two results, round by round.
func (r *result) against(other *result, name string) figure.Number {
	return r.Rounds.Against(other.Rounds, name)
}

// exact reports whether there were never two holders at once.
func (r *result) exact() bool { return !(r.Median.Of(mViolations) > 0) }
