package postmortem

import (
	"maps"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/target"
)

// Result is what the files prove.
type Result struct {
	Files    []File        `json:"files"`
	Verdict  judge.Verdict `json:"verdict"`
	Report   judge.Report  `json:"report"`
	Since    []Since       `json:"since,omitempty"`
	Patterns []Pattern     `json:"patterns,omitempty"`
}

// reading is a way to read the files: a shop that means them so is right.
type reading struct {
	in  judge.Input
	why text.Text
}

// Judge judges what was read. A verdict of BROKEN that another way to read the files does not share is INCONCLUSIVE,
// and says which way.
func (l *Logs) Judge() Result {
	in := l.input()
	r := judged(in)
	if r.Verdict == judge.Broken {
		for _, other := range l.readings(in) {
			if judged(other.in).Verdict == judge.Broken {
				continue
			}
			r = undecided(r, other.why)
		}
	}
	if only := strings.Trim(r.Found, "LA") == "" && r.Found != ""; only && l.has["orders"] != nil && l.part(in, r) {
		r = undecided(r, text.Of("%d [order was|orders were] read, and others are missing: may they be on another page, or "+
			"before the first of these or after the last?").With(len(l.orders)))
	}
	if r.Answers != nil { // those that prove nothing were passed on as declined
		r.Answers = map[judge.Outcome]int{}
		for _, op := range l.ops {
			r.Answers[op.Outcome]++
		}
	}
	r.Product, r.Store, r.Mode = l.o.Product, "", "" // there is one, and it has no name
	r.Unchecked = append(r.Unchecked, l.notShown()...)
	res := Result{Files: l.files, Verdict: r.Verdict, Report: r}
	if r.Verdict == judge.Broken {
		res.Since, res.Patterns = l.since(in, r), patterns(r)
	}
	return res
}

// undecided is a report that claims none of its findings, and says why.
func undecided(r judge.Report, why text.Text) judge.Report {
	return judge.Report{Verdict: judge.Inconclusive, Initial: r.Initial, Final: r.Final, Unseen: r.Unseen, Sold: r.Sold,
		Orders: r.Orders, Answers: r.Answers, Replicas: r.Replicas, Lang: r.Lang, Unchecked: r.Unchecked,
		Missing: append([]string{why.In(r.Lang)}, r.Missing...)}
}

// judged judges by the orders or, where these are not there, by the answers alone.
func judged(in judge.Input) judge.Report {
	if in.Ledger.Orders != nil {
		return judge.Judge(in)
	}
	return judge.Foreign(in.Ledger.Initial[target.ForeignStore], in.Ledger.Stock[target.ForeignStore], in)
}

// input makes the judge's input. Whoever has not been there knows neither whether the history is complete nor, without
// both times of each request, who overlapped whom: refusals prove nothing then.
func (l *Logs) input() judge.Input {
	orders, _ := merged(l.orders, false)
	if l.has["orders"] == nil {
		orders = nil
	}
	in := judge.Input{Store: target.ForeignStore, Mode: target.ServiceName, Lang: l.o.Lang, Partial: true,
		Sequential: !l.timed, Ledger: &api.Ledger{Orders: orders, Initial: map[api.Store]int64{},
			Stock: map[api.Store]int64{}}}
	before, after := l.counts()
	if in.Unseen = (judge.Unseen{Before: before == nil, After: after == nil}); before != nil {
		in.Ledger.Initial[in.Store] = *before
	}
	if after != nil {
		in.Ledger.Stock[in.Store] = *after
	}
	in.Ledger.Released = map[api.Store]bool{in.Store: l.added() > 0}
	if l.has["history"] == nil {
		return in
	}
	in.History = append([]judge.Op{}, l.ops...)
	if target.InProgress(in.History); orders != nil {
		in.History = target.Named(in.History, in.Ledger.Orders)
	}
	if !l.timed {
		unproven(in.History)
	}
	return in
}

// underWay is how long a sale may take: a reading soon after the last order may be one before its end.
const underWay = time.Second

// counts are the units before and after, as somebody said or the stock log has them; nil = nobody knows. A reading
// after the first order is none of the stock before, and one before the last order, or soon after it, none of the stock
// after.
func (l *Logs) counts() (before, after *int64) {
	before, after = l.o.Stock, l.o.StockAfter
	if len(l.samples) == 0 {
		return before, after
	}
	first, last := l.samples[0], l.samples[len(l.samples)-1]
	first.stock += l.added()
	early, late := true, true
	for _, f := range l.files {
		if f.Name != l.o.StockLog && !f.First.IsZero() && !first.at.IsZero() {
			early, late = early && !first.at.After(f.First), late && last.at.Sub(f.Last) >= underWay
		}
	}
	if before == nil && early {
		before = &first.stock
	}
	if after == nil && late {
		after = &last.stock
	}
	return before, after
}

// unproven makes refusals prove nothing.
func unproven(history []judge.Op) {
	for i := range history {
		if history[i].Outcome == judge.Refused {
			history[i].Outcome = judge.Declined
		}
	}
}

// rises is by how much the stock log rises, without what it says was added.
func (l *Logs) rises() (units int64) {
	for i := range max(0, len(l.samples)-1) {
		units += max(0, l.samples[i+1].stock-l.samples[i].stock-l.samples[i+1].added)
	}
	return units
}

// readings are the ways in which the files of a right shop may be meant.
func (l *Logs) readings(in judge.Input) (all []reading) {
	held := in
	held.MayHold = true
	all = append(all, reading{held, text.Of("requests were refused while others ran that neither sold nor were refused: " +
		"did these hold units, as for a payment that then failed?")})
	if rises := l.rises(); !l.o.NeverRestocked {
		more := in
		ledger := *in.Ledger
		ledger.Initial = map[api.Store]int64{in.Store: ledger.Initial[in.Store] + rises}
		ledger.Released = map[api.Store]bool{in.Store: true}
		more.Ledger, more.History = &ledger, slices.Clone(in.History)
		if in.History != nil {
			unproven(more.History)
		}
		all = append(all, reading{more, text.Of("were units added meanwhile, or did orders come back (the stock log " +
			"rises by " +
			"%d)? --never-restocked says no, --stock how many units there were to sell in all").With(rises)})
	}
	if in.Ledger.Orders == nil {
		return all
	}
	if orders, again := merged(l.orders, true); again > 0 {
		once := in
		ledger := *in.Ledger
		ledger.Orders, once.Ledger = orders, &ledger
		all = append(all, reading{once, text.Of("%d [row repeats|rows repeat] the id of an order, and without [it|them] " +
			"the " +
			"books add up: was it exported twice?").With(again)})
	}
	return slices.Concat(all, l.byState(in))
}

// mostStates is how many states of orders are tried.
const mostStates = 8

// byState leaves out the orders of one state, and their answers.
func (l *Logs) byState(in judge.Input) (all []reading) {
	count := map[string]int{}
	for _, s := range l.states {
		count[s]++
	}
	if l.o.States != nil || len(count) < 2 || len(count) > mostStates {
		return nil
	}
	for _, s := range slices.Sorted(maps.Keys(count)) {
		stand, ledger, dropped := in, *in.Ledger, map[string]bool{}
		for i, o := range l.orders {
			dropped[o.OrderID] = l.states[i] == s
		}
		ledger.Orders = slices.DeleteFunc(slices.Clone(ledger.Orders), func(o api.Order) bool { return dropped[o.OrderID] })
		stand.Ledger = &ledger
		if in.History != nil {
			stand.History = slices.DeleteFunc(slices.Clone(in.History), func(op judge.Op) bool { return dropped[op.OrderID] })
			unproven(stand.History)
		}
		all = append(all, reading{stand, text.Of("%d [order is|orders are] %s, and without [it|them] the books add up: "+
			"--states says which orders count").With(count[s], s)})
	}
	return all
}

// merged are the orders with the rows that repeat an id as parts of one; once leaves these rows out.
func merged(orders []api.Order, once bool) (all []api.Order, again int) {
	at := map[string]int{}
	all = make([]api.Order, 0, len(orders))
	for _, o := range orders {
		first, seen := at[o.OrderID]
		switch {
		case !seen || o.OrderID == "":
			at[o.OrderID] = len(all)
			all = append(all, o)
			continue
		case !once:
			all[first].Quantity += o.Quantity
		}
		again++
	}
	return all, again
}

// part says why orders that are missing may only be missing in the file: it has as many rows as a page, or the stock
// fell before the first of them or after the last, or all answers whose orders are there come before all others.
func (l *Logs) part(in judge.Input, r judge.Report) bool {
	n, fell := len(l.orders), int64(0)
	first, last := l.files[0].First, l.files[0].Last // of the orders
	for i := range max(0, len(l.samples)-1) {
		if a, b := l.samples[i], l.samples[i+1]; !first.IsZero() && (b.at.Before(first) || a.at.After(last)) {
			fell += max(0, a.stock+b.added-b.stock)
		}
	}
	there := map[string]bool{}
	for _, o := range in.Ledger.Orders {
		there[o.OrderID] = true
	}
	turns, missing := 0, map[bool]int{}
	before := false
	for _, op := range in.History { // by the time of the call
		if op.Outcome != judge.OK {
			continue
		}
		if now := !there[op.OrderID]; len(missing) > 0 && now != before {
			turns++
		}
		before = !there[op.OrderID]
		missing[before]++
	}
	page := n > 0 && (n%1000 == 0 || slices.Contains([]int{10, 20, 25, 50, 100, 200, 250, 500}, n))
	return page || r.Leaked > 0 && fell >= r.Leaked || turns == 1 && len(missing) == 2
}

// notShown says what the files cannot show, a sentence each.
func (l *Logs) notShown() (all []string) {
	say := func(is bool, t text.Text) {
		if is {
			all = append(all, t.In(l.o.Lang))
		}
	}
	orders, history := l.has["orders"], l.has["history"]
	say(orders != nil && !orders[rRemaining], text.Of("which units were sold twice: the orders do not say what they left "+
		"(remaining)"))
	say(orders != nil && !orders[rKey], text.Of("double charges: the orders have no idempotency key, and buyers with "+
		"several orders may have wanted them"))
	say(orders != nil && !orders[rQuantity], text.Of("how many units each order is about: each counts as one"))
	say(orders != nil && !orders[rTime], text.Of("since when: the orders have no time"))
	say(orders != nil && !orders[rOrder], text.Of("whether orders are lost or there twice: they have no id"))
	say(l.samples == nil, text.Of("since when the stock was wrong: there is no stock log"))
	before, after := l.counts()
	say(l.samples != nil && (before == nil || after == nil), text.Of("the stock before and after: the stock log does not "+
		"begin before the first order, or ends before a second after the last"))
	say(history != nil && !l.timed, text.Of("refusals, and which requests overlapped: the history needs when each was "+
		"sent and answered"))
	say(history != nil && orders != nil && !history[rOrder] && !history[rBody], text.Of("which order belongs to which "+
		"answer: the history does not name them, so they were counted"))
	say(history != nil, text.Of("whether it got stuck: the history may lack requests"))
	return all
}
