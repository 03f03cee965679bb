package main

import (
	"fmt"
	"io"

	"lastitem/bench/figure"
)

type column = figure.Column[*result]

func median(name string) func(*result) figure.Number {
	return func(r *result) figure.Number { return r.Median.Of(name) }
}

func plain(head, name string) column { return figure.Plain(head, median(name)) }

func toRaw(name string) column {
	return figure.Plain("|x raw", func(r *result) figure.Number { return r.ToRaw.Of(name) })
}

func toCeiling(name string) column {
	return figure.Plain("|x mutex", func(r *result) figure.Number { return r.ToCeiling.Of(name) })
}

func percent(head, name string) column { return figure.Percent(head, median(name)) }

// The columns that show how reliable a row is.
var spread, foreign = percent("|spread", mSpread), percent("others'|CPU", mOthers)

// The cost of an acquisition with its section, in microseconds of CPU time.
var clientCPU, serverCPU = plain("CPU us/acq|clients", mClientCPU), plain("|redis", mServerCPU)

// columns has the columns for each kind of scenario.
var columns = map[string][]column{
	kindFree: {
		plain("|acq/s", mRate), toRaw(mRate), toCeiling(mRate), plain("network|cmds/acq", mCommands),
		plain("lock+unlock us|p50", mPair50), plain("|p99", mPair99), clientCPU, serverCPU, spread, foreign,
	},
	kindHot: {
		plain("|acq/s", mRate), toRaw(mRate), toCeiling(mRate),
		plain("owner|changes/s", mOwnerChanges), toRaw(mOwnerChanges), toCeiling(mOwnerChanges),
		plain("network|cmds/acq", mCommands), plain("hand-off us|p50", mHandoff50), plain("|p99", mHandoff99),
		plain("wait ms|p50", mWait50), plain("|p99", mWait99), plain("|max", mWaitMax),
		plain("goroutines|max/min", mMaxMin), plain("|Jain", mJain),
		{Head: "one at|a time", Cell: func(r *result) string {
			if r.exact() {
				return "yes"
			}
			return "NO"
		}},
		clientCPU, serverCPU, spread, foreign,
	},
	kindCluster: {
		plain("|acq/s", mRate), plain("x one|master", mToSingle), toRaw(mRate), plain("network|cmds/acq", mCommands),
		plain("lock+unlock us|p50", mPair50), plain("|p99", mPair99), clientCPU, serverCPU, spread, foreign,
	},
	kindFailover: {plain("recovery|ms", mRecovery), plain("|acq/s", mRate), plain("failed|operations", mFailures),
		plain("wait ms|max", mWaitMax), spread},
	kindPark: {plain("network|commands/s", mParked)},
	kindHold: {plain("renewal|commands/s", mRenewals), plain("bytes|per lock", mBytes),
		plain("goroutines|for all", mGoroutines)},
}

// notes are printed below the tables.
var notes = map[string]string{
	kindFree: `No critical section. CPU: of all clients, of redis-server. spread: (max - min) / median of acq/s over ` +
		`the rounds. others' CPU: what other programs used of all.`,
	kindHot: `Critical section: GET and SET of a counter, whose values must be 1, 2, 3, ... (one at a time). hand-off: from
the call of the release to the return of the next acquire, in any goroutine. wait: of every acquire, also where the
window's end cut it off. The JSON has the ratios of every measure.`,
	kindCluster: `No critical section. Three masters share the CPUs that are not the clients': on two CPUs the single
master and the three have one. CPU: of all clients, of all masters. x one master: the same lock, round by round.`,
	kindFailover: `The master is killed one second into the window, and its replica is promoted half a second later.
recovery: from the promotion to the next acquisition, in any process; 4500 = there was none in the window, and none
comes before the TTL (30 s) runs out. Whether two were inside is not judged: a promoted replica may lack the lock, and
the counter's last values. failed operations: acquires, releases and sections that ended with an error.`,
	kindPark: `All at the same time. Setting connections up and keeping them alive (PING) does not count, here and ` +
		`elsewhere.`,
	kindHold: `All at the same time, for one TTL; where nothing is renewed, the caller must. bytes: heap and stacks, ` +
		`collected.`,
}

func (o *outcome) print(out io.Writer) {
	fmt.Fprintf(out, "\n== %s: %s ==\n", o.Name, o.Title)
	if len(o.Results) == 0 {
		fmt.Fprintln(out, "none of the requested contenders can take part")
		return
	}
	cols := columns[o.scenario.kind]
	if o.scenario.delay > 0 {
		cols = append([]column{plain("PING|ms", mRTT), plain("hand-off|PINGs", mHandoffTrips)}, cols...)
	}
	name := column{Head: "|contender", Cell: func(r *result) string { return r.Contender }}
	figure.PrintTable(out, append([]column{name}, cols...), o.Results, 0)
	if note := notes[o.scenario.kind]; note != "" {
		fmt.Fprintln(out, note)
	}
	for _, r := range o.Results {
		if n := r.Median.Of(mErrors); n > 0 {
			fmt.Fprintf(out, "%s: %.0f errors in a round, the first: %s\n", r.Contender, n, r.Failed)
		}
	}
}
