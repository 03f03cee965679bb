package loadtest

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/client"
	"lastitem/say/text"
	"lastitem/target"
)

// witness keeps what the answers of somebody's service looked like: the first of each code, and how many of those that
// count as sold look like the purchase that was tried. A verdict from statuses alone is the worst case; the bodies may
// contradict it.
type witness struct {
	units    int64                   // of one purchase
	promises func(target.Reply) bool // see [target.Foreign.Promises]

	mu       sync.Mutex
	first    map[string]string // by code: status and body
	kinds    map[string]client.Kind
	sold     [2]looks          // with the words that tell what happened, and without
	refused  map[string]string // by shape, an example
	promised bool              // an answer promises an order that is written later
	told     bool              // the user has said what a refusal looks like
}

// looks counts the answers that count as sold by their shapes.
type looks struct {
	tried   map[string]bool // the shapes of the purchases that were tried
	count   map[string]int
	example map[string]string
}

func newWitness() *witness {
	w := &witness{first: map[string]string{}, kinds: map[string]client.Kind{}, refused: map[string]string{}}
	for i := range w.sold {
		w.sold[i] = looks{map[string]bool{}, map[string]int{}, map[string]string{}}
	}
	return w
}

// mostShapes is how many shapes are told apart: a service with more writes a name or a number into each answer.
const mostShapes = 8

// note is told of every answer of the load.
func (w *witness) note(kind client.Kind, code string, r target.Reply) {
	var shapes [2]string
	if kind == client.Accepted || kind == client.Refused {
		shapes = target.Shapes(r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kinds[code] == "" {
		w.kinds[code], w.first[code] = kind, target.Shown(r)
	}
	refused := kind == client.Refused && code != string(api.LockBusy)
	if refused && len(w.refused) <= mostShapes && w.refused[shapes[0]] == "" {
		w.refused[shapes[0]] = target.Shown(r)
	}
	if kind != client.Accepted {
		return
	}
	w.promised = w.promised || w.promises(r)
	for i, shape := range shapes {
		l := &w.sold[i]
		if l.count[shape] == 0 && len(l.count) <= mostShapes {
			l.count[shape], l.example[shape] = 1, target.Shown(r)
		} else if l.count[shape] > 0 {
			l.count[shape]++
		}
	}
}

// tried is told of the answer to a purchase that was tried, and sold.
func (w *witness) tried(r target.Reply) {
	for i, shape := range target.Shapes(r) {
		w.sold[i].tried[shape] = true
	}
}

// unlike returns how many answers that count as sold do not look like one that sold, and one of them. Where every
// answer looks different, nothing can be said.
func (w *witness) unlike() (n int, example string) {
	for _, l := range w.sold {
		if len(l.tried) == 0 || len(l.count) > mostShapes {
			continue
		}
		for _, shape := range slices.Sorted(maps.Keys(l.count)) { // the example must not change from run to run
			if !l.tried[shape] {
				n, example = n+l.count[shape], l.example[shape]
			}
		}
		return n, example
	}
	return 0, ""
}

// strange lists the first answer of each code that is neither sold nor refused. One that came only after the last sale
// may mean sold out.
func (w *witness) strange(history []judge.Op, lang string) (all []string) {
	lastSold, first := int64(-1), map[string]int64{}
	for _, op := range history {
		if code := string(op.Code); op.Outcome == judge.OK {
			lastSold = max(lastSold, op.Call)
		} else if at, seen := first[code]; !seen || op.Return < at {
			first[code] = op.Return
		}
	}
	for _, code := range slices.Sorted(maps.Keys(w.first)) {
		if w.kinds[code] != client.Failed || w.first[code] == "0" {
			continue
		}
		said := text.Of("the first %s: %s").With(code, w.first[code])
		status, is4xx := strings.CutPrefix(code, "http_4")
		if is4xx && lastSold >= 0 && first[code] > lastSold {
			said = text.Of("the first %s: %s; it came only after the last sale: if it means sold out, give --refused 4%s").
				With(code, w.first[code], status)
		}
		all = append(all, said.In(lang))
	}
	return all
}

// promise makes the good answers unknown that name none of the orders, if the service promises orders that it writes
// later, and returns how many orders are missing for them. An order that may have been cancelled was written.
func (w *witness) promise(history []judge.Op, orders []api.Order, cancels []judge.ReservationOp) (open int) {
	if !w.promised {
		return 0
	}
	written := map[string]bool{}
	for _, o := range orders {
		written[o.OrderID] = true
	}
	sold, gone := 0, 0
	for _, op := range cancels {
		if op.MayCancel() && op.OrderID != "" && !written[op.OrderID] {
			written[op.OrderID] = true
			gone++
		}
	}
	for i, op := range history {
		if op.Outcome != judge.OK {
			continue
		}
		if sold++; !written[op.OrderID] {
			history[i].Outcome, history[i].OrderID = judge.Unknown, ""
		}
	}
	return max(0, sold-len(orders)-gone)
}

// doubt makes a verdict INCONCLUSIVE that rests on answers which contradict each other or the books, and says what
// does. rows are the orders, nil = they cannot be read. open is how many answers promise an order that is not there.
func (w *witness) doubt(r judge.Report, rows []api.Order, open int) judge.Report {
	ordered := unitsOf(rows)
	sold, refused := r.Answers[judge.OK]+open, r.Answers[judge.Refused]
	unlike, example := w.unlike()
	proven := r.Final < 0 && rows == nil || ordered > r.Initial // by the books alone
	doubtful := !proven && strings.Trim(r.Found, "OLAU") == ""
	var why text.Text
	switch {
	case unlike > 0 && (open > 0 || r.Verdict == judge.Broken):
		why = text.Of("%d [answer counts|answers count] as sold and [does|do] not look like the purchase that was tried and "+
			"sold: %s; --ok-body and --refused-body tell such answers apart").With(unlike, example)
	case open > 0:
		doubtful = r.Verdict != judge.Broken || r.OnlyLost()
		why = text.Of("%d [answer promises|answers promise] an order that is not there: orders may still be written, " +
			"--settle gives them more time").With(open)
	case r.Verdict != judge.Broken:
		return r
	case rows == nil && r.Overdrawn > 0 && r.Found == "" && r.Sold <= r.Initial:
		doubtful = true
		why = text.Of("the stock is at %d: refused requests lower it too, or more was sold than was answered. " +
			"--orders-... tells").With(r.Final)
	case r.Final == r.Initial && sold > 0:
		why = text.Of("the stock stayed %d while %d were sold and %d refused: does a cache show it, or is it another's?").
			With(r.Final, sold, refused)
	case len(rows) == 1 && sold > 1 && r.Final == r.Initial-rows[0].Quantity:
		why = text.Of("%d answers mean sold, and there is one order: does the service take equal requests for one? " +
			"{{key}} in --request tells them apart").With(sold)
	case refused == 0 && r.Final < w.units && (r.Sold > r.Initial || rows != nil && sold > len(rows)):
		why = text.Of("no request was refused although the stock ran out: does the service answer everything with the same " +
			"status? --ok-body and --refused-body tell such answers apart")
	case rows != nil && len(rows) > sold+r.Answers[judge.Unknown]:
		doubtful = false // a sale that is called refused is a mistake
		why = text.Of("there are more orders than answers that said so, %d and %d: does somebody else buy, or does a "+
			"refusal mean something else?").With(len(rows), sold)
	case r.BadRefusals > 0 && r.Found == "":
		doubtful = len(w.refused) > 1 && len(w.refused) <= mostShapes || r.BadRefusals == refused && !w.told
		why = text.Of("requests were refused while there was stock, by answers like these: %s. Is one of them busy, or " +
			"another rule? --declined and --declined-body tell it").With(strings.Join(w.refusals(), "; "))
	default:
		return r
	}
	because := []string{why.In(r.Lang)}
	for _, code := range slices.Sorted(maps.Keys(w.first)) {
		if w.kinds[code] != client.Failed {
			because = append(because, text.Of("the first %s: %s").With(code, w.first[code]).In(r.Lang))
		}
	}
	r.Missing = append(because, r.Missing...)
	if doubtful {
		return undecided(r)
	}
	return r
}

// unitsOf is how many units orders are about.
func unitsOf(orders []api.Order) (units int64) {
	for _, o := range orders {
		units += o.Quantity
	}
	return units
}

// undecided is a report that claims none of its findings.
func undecided(r judge.Report) judge.Report {
	return judge.Report{Verdict: judge.Inconclusive, Initial: r.Initial, Final: r.Final, Sold: r.Sold, Orders: r.Orders,
		Answers: r.Answers, Replicas: r.Replicas, Lang: r.Lang, Missing: r.Missing, Unchecked: r.Unchecked}
}

// refusals are examples of the answers that refused, one of each shape.
func (w *witness) refusals() []string { return slices.Sorted(maps.Values(w.refused)) }

// pageSizes are how many rows lists show where nobody says how many.
var pageSizes = map[int]bool{10: true, 12: true, 15: true, 20: true, 24: true, 25: true, 30: true, 40: true, 50: true,
	100: true, 200: true, 250: true, 500: true, 1000: true}
