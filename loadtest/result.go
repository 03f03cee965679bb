package loadtest

import (
	"fmt"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/loadtest/client"
)

// Result is one run of one mode: one plan, once.
type Result struct {
	Mode       string    `json:"mode"`
	Store      api.Store `json:"store,omitempty"`
	Repetition int       `json:"repetition"`      // from 1
	Tries      int       `json:"tries,omitempty"` // which run this is where those before it showed nothing, see [Comparing]; 0 = the first
	Engine     string    `json:"engine"`
	Replicas   int       `json:"replicas,omitempty"` // how many stood behind the address; 0 = not known
	Plan       Plan      `json:"plan"`
	Started    time.Time `json:"started"`

	// Elapsed runs from the first call to the last return; ToLastAccepted to the return of the last 200, and is what
	// AcceptedPerSecond divides by, so that a tail of refusals does not dilute it.
	Elapsed           time.Duration `json:"elapsed_ns"`
	ToLastAccepted    time.Duration `json:"to_last_accepted_ns"`
	AcceptedPerSecond float64       `json:"accepted_per_second"`
	RequestsPerSecond float64       `json:"requests_per_second"`

	Sent    int                     `json:"sent"`
	Retried int                     `json:"retried"`         // of Sent, repetitions with the same key
	Extra   int                     `json:"extra,omitempty"` // of Sent, beyond the plan's requests until the stock was sold out, see [Plan].SellOut
	Dropped int                     `json:"dropped"`         // open model: arrivals nobody was free to send
	Codes   map[string]int          `json:"codes"`           // "ok", the problem's code, or what the transport said: "timeout", "reset", ...
	Served  map[string]int          `json:"served"`          // answers by X-Replica
	Lag     Latency                 `json:"lag"`             // open model: send minus intended start
	Latency map[client.Kind]Latency `json:"latency"`         // response time: from the intended start (closed model: the send) to the last byte
	Service map[client.Kind]Latency `json:"service"`         // service time: from the send to the last byte
	// Series is how the run went, in windows of equal length that grow with the run; Curve is the distribution of the response times of
	// what was accepted.
	Series  []Window `json:"series"`
	Curve   []Point  `json:"accepted_curve,omitempty"`
	Noisy   []string `json:"noisy,omitempty"` // why the numbers should not be trusted: drops, lag, a busy machine
	Partial bool     `json:"partial,omitempty"`
	// Discounted says why the run does not count as a measurement; "" = it counts. If an open model drops more than one arrival in a
	// hundred, the load was not the plan's, and the latencies cover only the requests that were sent. The verdict still holds.
	Discounted string `json:"discounted,omitempty"`
	// Log holds the last lines that the service's processes logged during a run that failed, was contradicted or stayed undecided, if
	// they can be read.
	Log []string `json:"log,omitempty"`

	// Verdicts holds the judge's report for each product that was sold, and Claim and Finding what became of the claim.
	Verdicts []audit.Report `json:"verdicts,omitempty"`
	Claim    api.Outcomes   `json:"claim,omitempty"`
	Finding  audit.Finding  `json:"finding,omitempty"`
	Why      []string       `json:"why,omitempty"`

	// History is what the clients saw, in the order of their calls; it is handed to the judge and written only on request.
	// A baseline keeps none.
	History []audit.Op `json:"-"`
}

// Unmet says in a sentence how the run missed the stock that its plan must end at, "" where it did not. Only a mode that
// claims to be exact is held to it.
func (r Result) Unmet() string {
	if r.Plan.MustEnd == nil || r.Claim != api.Exact {
		return ""
	}
	for _, v := range r.Verdicts {
		if v.Verdict != audit.Inconclusive && v.Final != *r.Plan.MustEnd {
			return fmt.Sprintf("stock ended at %d, plan %q wants %d", v.Final, r.Plan.Name, *r.Plan.MustEnd)
		}
	}
	return ""
}

// Latency summarizes one histogram. Min, Mean and Max are exact; percentiles are to three digits.
type Latency struct {
	Count int64         `json:"count"`
	Min   time.Duration `json:"min_ns"`
	Mean  time.Duration `json:"mean_ns"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P95   time.Duration `json:"p95_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p999_ns"`
	Max   time.Duration `json:"max_ns"`
}

// Point says that Percentile percent of the values do not exceed Value.
type Point struct {
	Percentile float64       `json:"percentile"`
	Value      time.Duration `json:"ns"`
}

// Window is one stretch of the run, by the time of the answer.
type Window struct {
	At       time.Duration `json:"at_ns"` // since the start
	For      time.Duration `json:"for_ns"`
	Accepted int64         `json:"accepted"`
	Refused  int64         `json:"refused"`
	Failed   int64         `json:"failed"`
	P50      time.Duration `json:"accepted_p50_ns"`
	P90      time.Duration `json:"accepted_p90_ns"`
	P99      time.Duration `json:"accepted_p99_ns"`
}

// PerSecond is n answers of the window as a rate.
func (w Window) PerSecond(n int64) float64 { return perSecond(n, w.For) }
