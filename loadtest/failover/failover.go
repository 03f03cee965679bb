// Package failover says what a failover of database servers cost the clients of a mode. It looks at the history of a
// load during which a server was struck, and at the judge's report. [Judge] makes a [Mode], a [Strike] holds the modes
// of one failover, and a [Result] all strikes of a command.
package failover

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest"
	"lastitem/say/text"
)

// Result is what 'shop failover' prints with -o json.
type Result struct {
	Date    time.Time `json:"date"`
	Machine string    `json:"machine"` // "linux/amd64, 2 cores, load average 1.5"
	Version string    `json:"version"`
	Rate    float64   `json:"rate"` // requests per second and mode
	Strikes []Strike  `json:"strikes"`
	Crossed []string  `json:"crossed,omitempty"` // thresholds, each with what crossed it
}

// Strike is one failover.
type Strike struct {
	Engine string    `json:"engine"`
	How    string    `json:"strike"`
	At     time.Time `json:"at"`
	// Took is the engine's part: the time from the strike until another server had taken over.
	Took time.Duration `json:"engine_ns"`
	// Lacked is what no replica had of the struck server's writes, in Unit; -1 = the engine has no such thing.
	Lacked int64  `json:"lacked"`
	Unit   string `json:"lacked_unit,omitempty"` // "bytes" of the replication stream, or "transactions"
	// Vacuous says why the strike could not have shown a loss; "" = it could.
	Vacuous string `json:"vacuous,omitempty"`
	Modes   []Mode `json:"modes"`
}

// Mode is what a strike cost the buyers of one mode.
type Mode struct {
	Mode  string       `json:"mode"`
	Store api.Store    `json:"store"`
	Claim api.Outcomes `json:"claim"` // under a failover of Redis
	Sent  int          `json:"sent"`
	Sold  int          `json:"sold"`
	// Gap is the longest time after the strike between the answers of two sales, on the clients' clock. It is too long by
	// Error at most, the time between two requests. Shop is the part of the gap that is not the engine's; 0 = none.
	Gap   time.Duration `json:"gap_ns"`
	Error time.Duration `json:"gap_error_ns"`
	Shop  time.Duration `json:"shop_ns"`
	// Others is the gap of a product on a server that was not struck; 0 = there is no such server.
	Others time.Duration `json:"others_gap_ns,omitempty"`
	// Declined counts the answers "not now". Unknown counts the buyers that never learned whether they had bought, and
	// Unresolved those of them for whom the ledger does not tell either: it was not read, or the mode keeps no keys.
	Declined   int `json:"declined"`
	Unknown    int `json:"unknown"`
	Unresolved int `json:"unresolved"`
	// Lost counts sales that were acknowledged and are not in the ledger, Slow those that took more than a second.
	Lost     int           `json:"lost"`
	Oversold int64         `json:"oversold"`
	Slow     int           `json:"slow"`
	Verdict  judge.Verdict `json:"verdict"`
	Found    string        `json:"found,omitempty"`
	// Broken says what the mode does not claim and was seen; nil = nothing.
	Broken []string `json:"broken,omitempty"`
	// Undecided says why the audit decides nothing; nil = it does.
	Undecided []string `json:"undecided,omitempty"`
}

// slow is from when on a sale is one that has waited.
const slow = time.Second

// Judge says what a strike cost a mode. r is the run, whose product was on the struck server, and others one of a
// product that was not; nil = there is none. losable says that the engine may lose what it acknowledged, whatever the
// mode claims.
func Judge(m api.Mode, r loadtest.Result, others *loadtest.Result, s Strike, losable bool, lang string) Mode {
	out := Mode{Mode: m.Name, Store: r.Store, Claim: m.Claim(r.Store, api.Failover), Sent: r.Sent, Sold: r.Codes["ok"],
		Error: time.Duration(float64(time.Second) / r.Plan.Rate)}
	var again bool
	if out.Gap, again = gap(r, s); !again && s.Vacuous == "" {
		out.Broken = append(out.Broken, text.Of("nothing was sold again").In(lang))
	}
	if out.Gap > 2*out.Error {
		out.Shop = max(0, out.Gap-s.Took)
	}
	if others != nil {
		out.Others, _ = gap(*others, s)
	}
	for _, op := range r.History {
		switch {
		case op.Outcome == judge.OK && op.Return-op.Call > int64(slow):
			out.Slow++
		case op.Outcome != judge.OK && op.Outcome != judge.Unknown:
			out.Declined++
		}
	}
	out.Unknown = unknown(r.History)
	allowed := string(out.Claim + m.Claim(r.Store, api.Threads) + m.Claim(r.Store, api.Replicas))
	if losable {
		allowed += "A"
	}
	for _, v := range r.Verdicts {
		out.Lost, out.Oversold = out.Lost+v.AckLost, out.Oversold+v.Oversold
		out.Verdict, out.Found = v.Verdict, out.Found+v.Found
		if v.Verdict == judge.Inconclusive {
			out.Undecided = append(out.Undecided, v.Missing...)
		}
		if v.Verdict == judge.Inconclusive || r.Plan.Retry == 0 {
			out.Unresolved = out.Unknown
		}
		for _, letter := range v.Found {
			if !strings.ContainsRune(allowed, letter) {
				out.Broken = append(out.Broken, fmt.Sprintf(text.Of("the audit found %c, which the mode does not claim").In(lang),
					letter))
			}
		}
		if v.Found == "" || strings.Trim(v.Found, allowed) != "" {
			out.Broken = append(out.Broken, v.Violations...)
		}
	}
	return out
}

// gap is [Mode.Gap]; again says that something was sold after the takeover.
func gap(r loadtest.Result, s Strike) (longest time.Duration, again bool) {
	var sold []int64 // when, and when somebody asked for the last time
	var asked int64
	struck := int64(s.At.Sub(r.Started))
	for _, op := range r.History {
		asked = max(asked, op.Call)
		if op.Outcome == judge.OK {
			sold = append(sold, op.Return)
			again = again || op.Return > struck+int64(s.Took)
		}
	}
	slices.Sort(sold)
	last := int64(0)
	if n := len(sold); n == 0 || asked > sold[n-1] {
		sold = append(sold, asked)
	}
	for _, now := range sold {
		if now > struck {
			longest = max(longest, time.Duration(now-last))
		}
		last = now
	}
	return longest, again
}

// unknown counts the buyers whose last answer told nothing.
func unknown(ops []judge.Op) (n int) {
	last := map[string]judge.Op{}
	for _, op := range ops {
		switch known := last[op.Key]; {
		case op.Key == "" && op.Outcome == judge.Unknown:
			n++
		case op.Key != "" && known.Outcome != judge.OK && op.Call >= known.Call:
			last[op.Key] = op
		}
	}
	for _, op := range last {
		if op.Outcome == judge.Unknown {
			n++
		}
	}
	return n
}

// InFlight says whether a request of the run was unanswered at some moment between the strike and the takeover.
func InFlight(r loadtest.Result, s Strike) bool {
	from := int64(s.At.Sub(r.Started))
	return slices.ContainsFunc(r.History, func(op judge.Op) bool {
		return op.Call < from+int64(s.Took) && op.Return > from
	})
}
