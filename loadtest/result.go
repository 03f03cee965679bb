package loadtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/loadtest/follow"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
)

// Result is one run of one mode: one plan, once.
type Result struct {
	Mode       string    `json:"mode"`
	Foreign    bool      `json:"foreign,omitempty"` // a service that is not ours, see [RunForeign]: it makes no claim
	Store      api.Store `json:"store,omitempty"`
	Repetition int       `json:"repetition"` // from 1
	// Tries is how many runs there were if earlier ones showed nothing, see [plan.Plan].Insist; 0 = one. Vacuous of the
	// others were VACUOUS.
	Tries    int       `json:"tries,omitempty"`
	Vacuous  int       `json:"vacuous_tries,omitempty"`
	Engine   string    `json:"engine"`
	Replicas int       `json:"replicas,omitempty"` // processes behind the address; 0 = not known
	Plan     plan.Plan `json:"plan"`
	Started  time.Time `json:"started"` // when the first request could be sent; the history counts from here

	// Elapsed is the time from the first call to the last return; ToLastAccepted ends at the return of the last 200.
	// AcceptedPerSecond divides by it, so that a tail of refusals does not dilute the rate.
	Elapsed           time.Duration `json:"elapsed_ns"`
	ToLastAccepted    time.Duration `json:"to_last_accepted_ns"`
	AcceptedPerSecond float64       `json:"accepted_per_second"`
	RequestsPerSecond float64       `json:"requests_per_second"`

	// GeneratorCores is how many cores this process kept busy during the load, and BusyCores how many of the machine's
	// were busy with anything; 0 = the system does not tell.
	GeneratorCores float64 `json:"generator_cores"`
	BusyCores      float64 `json:"busy_cores,omitempty"`

	// CPU is the CPU time that the service used for the load: "replicas", "balancer", "stores"; nil = not known.
	CPU map[string]time.Duration `json:"cpu_ns,omitempty"`

	Sent    int `json:"sent"`
	Retried int `json:"retried"` // of Sent, repetitions with the same key
	// of Sent, beyond the plan's requests until the stock was sold out, see [plan.Plan].SellOut
	Extra   int `json:"extra,omitempty"`
	Dropped int `json:"dropped"` // open loop: arrivals beyond MaxInFlight
	// "ok", the problem's code, or the transport's error: "timeout", "reset", ...
	Codes  map[string]int `json:"codes"`
	Served map[string]int `json:"served"` // answers by X-Replica
	Lag    Latency        `json:"lag"`    // open loop: send minus intended start
	// response time: from the intended start (closed loop: the send) to the last byte
	Latency map[client.Kind]Latency `json:"latency"`
	Service map[client.Kind]Latency `json:"service"` // service time: from the send to the last byte
	// Series is the course of the run, in windows of equal length, which grows with the run; Curve is the distribution of
	// the response times of accepted requests.
	Series  []Window `json:"series"`
	Curve   []Point  `json:"accepted_curve,omitempty"`
	Noisy   []string `json:"noisy,omitempty"` // why the numbers should not be trusted: drops, lag, a busy machine
	Partial bool     `json:"partial,omitempty"`
	// Discounted says why the run does not count as a measurement; "" = it counts. If an open loop drops more than one
	// arrival in a hundred, the load was not the plan's, and the latencies cover only the requests that were sent. The
	// verdict still holds.
	Discounted string `json:"discounted,omitempty"`
	// Log holds the last lines that the service's processes logged during a run that failed, was contradicted or stayed
	// undecided, if they can be read.
	Log []string `json:"log,omitempty"`

	// Rested is how long after the last answer the books of a service that is not ours had come to rest; 0 = not read.
	Rested time.Duration `json:"rested_ns,omitempty"`

	// Holds says what became of the buyers of a plan that reserves; else nil.
	Holds *ReservationFigures `json:"holds,omitempty"`
	// Tickets says what became of the tickets of a plan that follows them; else nil.
	Tickets *TicketFigures `json:"tickets,omitempty"`

	// Verdicts has the judge's report on each product that was sold; Claim and Finding are the claim and whether it holds.
	Verdicts []judge.Report `json:"verdicts,omitempty"`
	Claim    api.Outcomes   `json:"claim,omitempty"`
	Finding  judge.Finding  `json:"finding,omitempty"`
	Why      []string       `json:"why,omitempty"`

	// History has every request as its client saw it, in the order of the calls. The judge gets it; it is written only on
	// request. A baseline keeps none.
	History []judge.Op `json:"-"`
	// Adjusts has every request that adjusted the stock, by product.
	Adjusts map[int64][]judge.Op `json:"-"`
	// Cancels has every request that cancelled or shipped an order of somebody's service, by product.
	Cancels map[int64][]judge.ReservationOp `json:"-"`
}

// Unmet says whether the run missed the stock that its plan must end at. If the run began with another stock, as with a
// foreign service, the end moves by the same amount. It returns a finding, and a sentence in the language of the
// verdicts; "" and "" = it did not. A mode that claims to be exact contradicts its claim if the service accepted what
// the plan sells. If requests were declined or are unknown, the run does not decide. A mode with another claim misses
// nothing.
func (r Result) Unmet() (judge.Finding, string) {
	if r.Plan.MustEnd == nil || r.Claim != api.Exact && !r.Foreign {
		return "", ""
	}
	accepted := r.Latency[client.Accepted].Count
	sells := r.Plan.Stock - *r.Plan.MustEnd
	for _, v := range r.Verdicts {
		must := v.Initial - sells
		if v.Verdict == judge.Inconclusive || v.Final == must {
			continue
		}
		wrong := text.Of("stock ended at %d, plan %q wants %d")
		why := fmt.Sprintf(wrong.In(v.Lang), v.Final, r.Plan.Name, must)
		if accepted*r.Plan.Quantity == sells {
			return judge.Contradicted, why
		}
		short := text.Of(", but only %d of %d [request|requests] succeeded")
		return judge.Undecided, why + text.Sprintf(short.In(v.Lang), accepted, r.Sent)
	}
	return "", ""
}

// Standing is the finding of the run: the judge's, or a worse one if the run missed its plan's final stock.
func (r Result) Standing() judge.Finding {
	unmet, _ := r.Unmet()
	return slices.MaxFunc([]judge.Finding{r.Finding, unmet}, func(a, b judge.Finding) int {
		return FindingRank(a) - FindingRank(b)
	})
}

// Verdict returns the verdict on the run's products together, as [judge.Overall] has it, and the letters found in any
// of them; "" for a run unjudged.
func (r Result) Verdict() (verdict judge.Verdict, found string) {
	if len(r.Verdicts) == 0 {
		return "", ""
	}
	seen := ""
	for _, v := range r.Verdicts {
		seen += v.Found
	}
	return judge.Overall(r.Verdicts), inOrder(seen)
}

// inOrder returns each outcome letter of seen once, in the order in which they are written.
func inOrder(seen string) (letters string) {
	for _, letter := range judge.Letters {
		if strings.ContainsRune(seen, letter) {
			letters += string(letter)
		}
	}
	return letters
}

// FindingRank orders findings from good to bad.
func FindingRank(f judge.Finding) int {
	return slices.Index([]judge.Finding{judge.Unclaimed, judge.Confirmed, judge.Undecided, judge.Contradicted}, f)
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

// Point is a point of a distribution: Percentile percent of the values do not exceed Value.
type Point struct {
	Percentile float64       `json:"percentile"`
	Value      time.Duration `json:"ns"`
}

// Window is one interval of the run, by the time of the answer.
type Window struct {
	At       time.Duration `json:"at_ns"` // since the start
	For      time.Duration `json:"for_ns"`
	Accepted int64         `json:"accepted"`
	Refused  int64         `json:"refused"`
	Failed   int64         `json:"failed"`
	// Completed are the tickets whose end was told, of a plan that follows them.
	Completed int64         `json:"completed,omitempty"`
	P50       time.Duration `json:"accepted_p50_ns"`
	P90       time.Duration `json:"accepted_p90_ns"`
	P99       time.Duration `json:"accepted_p99_ns"`
}

// PerSecond converts n answers of the window to a rate.
func (w Window) PerSecond(n int64) float64 { return perSecond(n, w.For) }

// perSecond returns n per second over d; 0 if d is 0.
func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// TicketFigures is what became of the tickets of a run whose plan follows them.
type TicketFigures struct {
	follow.Figures

	// CompletedPerSecond counts the ends until the last of them was told, from the first request on.
	CompletedPerSecond float64 `json:"completed_per_second"`
	// Age is the time from the 202 to the answer that told the end: an upper bound, since somebody has to ask.
	Age Latency `json:"age"`
	// Drained is how long after the last answer of the load the last end was told.
	Drained time.Duration `json:"drained_ns"`
}

// ReservationFigures is what became of the buyers of a run that reserves.
type ReservationFigures struct {
	// Buyers counts those that came, Reserved the reservations made, Refused and Limited the answers sold_out and
	// limit_reached, Doubled the second clicks.
	Buyers   int `json:"buyers"`
	Reserved int `json:"reserved"`
	Refused  int `json:"refused"`
	Limited  int `json:"limited,omitempty"`
	Doubled  int `json:"doubled,omitempty"`
	// Took is the median of what a reserve, or else a payment, took before the load, under the plan's own concurrency and
	// without pauses; 0 = not measured. Reserving is what the run made of it.
	Took      time.Duration  `json:"took_ns,omitempty"`
	Reserving plan.Reserving `json:"holding,omitzero"`
	// Sold counts the confirmed reservations, as the clients were told, Refunded the payments that came too late,
	// Cancelled the cancelled reservations, Extended the extended ones, Returned the returned orders.
	// Expired counts the reservations that the service says have expired.
	Sold      int `json:"sold"`
	Refunded  int `json:"refunded"`
	Cancelled int `json:"cancelled"`
	Extended  int `json:"extended,omitempty"`
	Returned  int `json:"returned,omitempty"`
	Expired   int `json:"expired"`
	// SalesPerSecond counts reservations that were confirmed, until the last of them. It is Result.AcceptedPerSecond.
	SalesPerSecond float64 `json:"sales_per_second"`
	// Races counts the confirms that were under way when the deadline or a sweep of their reservation came.
	Races int `json:"races"`
	// Latency has the response times of the good answers by request: "reserve", "confirm", "cancel", "extend",
	// "return".
	Latency map[judge.ReservationKind]Latency `json:"latency"`
	// History has every request about a reservation, by product, in the order of the calls.
	History map[int64][]judge.ReservationOp `json:"-"`
}
