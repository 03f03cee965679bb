package target

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/text"
)

// Linked are the answers and orders of a load after [Remote.Link].
type Linked struct {
	Ops     []judge.Op
	Orders  []api.Order
	Unnamed int    // answers that mean sold and name none of the orders
	Shared  int    // orders whose name in the answers is also that of another
	Member  string // by which the answers name the orders, as in number (ORD-17)
}

// Shifted says whether answers number their orders one by one, and the rows do so too from another number on: they
// count something else.
func Shifted(ops []judge.Op, orders []api.Order) bool {
	var answers, rows []int64
	for _, op := range ops {
		if n, err := strconv.ParseInt(op.OrderID, 10, 64); op.Outcome == judge.OK && !op.Replayed {
			if err != nil {
				return false
			}
			answers = append(answers, n)
		}
	}
	for _, o := range orders {
		n, err := strconv.ParseInt(o.OrderID, 10, 64)
		if err != nil {
			return false
		}
		rows = append(rows, n)
	}
	return oneByOne(answers) && oneByOne(rows) && len(rows) == len(answers) && slices.Min(rows) != slices.Min(answers)
}

// oneByOne says whether numbers are all those from one to another.
func oneByOne(numbers []int64) bool {
	seen := map[int64]bool{}
	for _, n := range numbers {
		seen[n] = true
	}
	return len(seen) == len(numbers) && len(seen) > 0 && slices.Max(numbers)-slices.Min(numbers) == int64(len(seen)-1)
}

// fewNames is how many answers at least must name orders before it counts that most rows have none of these names, if
// some have them as they are.
const fewNames = 10

// spelling is how a service may write in its answers what is in a member of the row.
type spelling func(string) string

var lastDigits = regexp.MustCompile(`\d+$`)

var spellings = []struct{ row, answer spelling }{
	{asItIs, asItIs}, {unpadded, unpadded}, {asItIs, digitsAtEnd}, {digitsAtEnd, asItIs}, {base36, strings.ToLower},
}

func asItIs(s string) string { return s }

// unpadded is a number without zeros before it.
func unpadded(s string) string {
	if _, err := strconv.ParseUint(s, 10, 64); err != nil {
		return s
	}
	return strings.TrimLeft(s[:len(s)-1], "0") + s[len(s)-1:]
}

// digitsAtEnd is the number at the end of a longer name.
func digitsAtEnd(s string) string {
	if d := lastDigits.FindString(s); d != "" {
		return unpadded(d)
	}
	return s
}

func base36(s string) string {
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return strconv.FormatUint(n, 36)
	}
	return s
}

// link is a way in which answers name rows.
type link struct {
	member      string
	rows        map[string][]int // by what an answer's name is spelled as
	row, answer spelling
	own         bool // the names are the ids of the orders
	exact       bool // they are spelled as in the row
}

// hits is how many names of rows were answered: many answers that end with the same digit name one row.
func (l link) hits(answered map[string]int) int {
	found := map[string]bool{}
	for name := range answered {
		if l.rows == nil {
			break
		}
		if spelled := l.answer(name); l.rows[spelled] != nil {
			found[spelled] = true
		}
	}
	return len(found)
}

// fits says whether the purchase that was tried may have been answered so: "" = its answer had no name.
func (l link) fits(name string, order row) bool {
	if name == "" || order == nil {
		return true
	}
	for member, v := range order.flat() {
		own := l.member == "" && (len(order) == 1 || slices.Contains(IDNames, member))
		if (own || l.member == member) && l.row(v) == l.answer(name) {
			return true
		}
	}
	return false
}

// links are the ways in which rows may be named: by their ids first, then by each member that is another in most
// rows, or has many values.
func links(rows []row, orders []api.Order) (all []link) {
	values := map[string][]string{"": make([]string, len(orders))}
	for i, o := range orders {
		values[""][i] = o.OrderID
		for member, v := range rows[i].flat() {
			if values[member] == nil {
				values[member] = make([]string, len(orders))
			}
			values[member][i] = v
		}
	}
	for _, member := range slices.Sorted(maps.Keys(values)) {
		for k, s := range spellings {
			l := link{member, map[string][]int{}, s.row, s.answer, member == "" && k == 0, k == 0}
			for i, v := range values[member] {
				l.rows[s.row(v)] = append(l.rows[s.row(v)], i)
			}
			if l.own || 2*len(l.rows) > len(orders) || len(l.rows) >= fewNames {
				all = append(all, l)
			}
		}
	}
	return all
}

// bestOf is the way in which the most answers name a row: a member that has most names as they are, in whatever
// spelling of it has more, or else any member in any spelling.
func bestOf(all []link, answered map[string]int) (best link) {
	most := func(fits func(link) bool) (best link, most int) {
		most = -1
		for _, l := range all {
			if n := l.hits(answered); n > most && fits(l) {
				best, most = l, n
			}
		}
		return best, most
	}
	best, n := most(func(l link) bool { return l.exact })
	if 2*n <= len(answered) {
		best, _ = most(func(link) bool { return true })
		return best
	}
	best, _ = most(func(l link) bool { return l.member == best.member })
	return best
}

// Link finds by which member of the rows, and in which spelling, the answers of a load name their orders, and gives
// both the same names: services answer with a number that is not the id of the row. The purchase that was tried must
// have been answered so too. Names that most rows do not have,
// and one for many requests that no row has, name nothing. Rows of one name that add up to what its only request asked
// for are one order. A member that has the key of a request is the key of its order.
func (r *Remote) Link(product int64, ops []judge.Op, orders []api.Order, asked int64) Linked {
	rows := r.lastOf(product).rows
	all := Linked{Ops: slices.Clone(ops), Orders: withKeys(rows, orders, ops)}
	answered, requests := map[string]int{}, map[[2]string]bool{} // by name: how many requests were answered it
	for i, op := range ops {
		if op.Outcome != judge.OK || op.OrderID == "" {
			continue
		}
		one := [2]string{op.OrderID, op.Key}
		if op.Key == "" {
			one[1] = fmt.Sprint("answer ", i)
		}
		if !requests[one] {
			requests[one] = true
			answered[op.OrderID]++
		}
	}
	t := r.tried[product]
	named := r.Read(t.sold).OrderID
	may := slices.DeleteFunc(links(rows, orders), func(l link) bool { return !l.fits(named, t.order) })
	best := bestOf(may, answered)
	hits := best.hits(answered)
	certain := best.exact && hits > 0 && len(answered) < fewNames
	if 2*hits < len(answered) && len(answered) <= len(orders) && !certain {
		best = link{}
	}
	all.name(best, answered)
	all.merge(asked, answered)
	return all
}

// withKeys are the orders with the keys of requests that their rows have in any member.
func withKeys(rows []row, orders []api.Order, ops []judge.Op) []api.Order {
	sent := map[string]bool{"": false}
	for _, op := range ops {
		sent[op.Key] = op.Key != ""
	}
	all := slices.Clone(orders)
	for i, o := range all {
		for _, v := range rows[i].flat() {
			if sent[v] && !sent[o.Key] {
				all[i].Key = v
			}
		}
	}
	return all
}

// name gives each answer the id of its order.
func (all *Linked) name(by link, answered map[string]int) {
	given, shared := map[[2]string]string{}, map[int]bool{}
	next, spelled := map[string]int{}, by.answer
	if spelled == nil {
		spelled = asItIs
	}
	for i, op := range all.Ops {
		if op.Outcome != judge.OK || op.OrderID == "" {
			continue
		}
		at := by.rows[spelled(op.OrderID)]
		same := [2]string{op.OrderID, op.Key}
		switch id, again := given[same]; {
		case by.own && len(at) > 0:
		case by.rows == nil, len(at) == 0 && answered[op.OrderID] > 1:
			all.Ops[i].OrderID = ""
		case again && op.Key != "":
			all.Ops[i].OrderID = id
		case len(at) > 0:
			to := at[next[op.OrderID]%len(at)]
			next[op.OrderID]++
			all.Ops[i].OrderID = all.Orders[to].OrderID
			given[same] = all.Orders[to].OrderID
			for _, k := range at {
				if shared[k] = len(at) > 1; shared[k] {
					all.Member = fmt.Sprintf("%s (%s)", by.member, op.OrderID)
				}
			}
		}
	}
	for _, op := range all.Ops {
		if op.Outcome == judge.OK && op.OrderID == "" {
			all.Unnamed++
		}
	}
	for _, is := range shared {
		if is {
			all.Shared++
		}
	}
}

// merge makes one order of rows that share an id and add up to what one request asked for: a row for each place from
// which it is sent.
func (all *Linked) merge(asked int64, answered map[string]int) {
	parts, units := map[string]int{}, map[string]int64{}
	for _, o := range all.Orders {
		parts[o.OrderID]++
		units[o.OrderID] += o.Quantity
	}
	first := map[string]bool{}
	all.Orders = slices.DeleteFunc(slices.Clone(all.Orders), func(o api.Order) bool {
		again := parts[o.OrderID] > 1 && units[o.OrderID] == asked && o.Quantity < asked && answered[o.OrderID] < 2
		again, first[o.OrderID] = again && first[o.OrderID], true
		return again
	})
	for i, o := range all.Orders {
		if parts[o.OrderID] > 1 && units[o.OrderID] == asked && answered[o.OrderID] < 2 {
			all.Orders[i].Quantity = asked
		}
	}
}

// Named completes the answers of a foreign service. An answer without an order's id gets the id of an order that no
// other answer names: the one with the same key or, if orders have no keys, the next. An answer that repeats the key
// and the order of an earlier one is a replay.
func Named(ops []judge.Op, rows []api.Order) []judge.Op {
	sameKeys(ops, rows)
	taken := map[string]bool{}
	answered := map[[2]string]bool{}
	for i, op := range ops {
		if op.Outcome != judge.OK || op.OrderID == "" {
			continue
		}
		same := [2]string{op.Key, op.OrderID}
		ops[i].Replayed = op.Replayed || op.Key != "" && answered[same]
		answered[same], taken[op.OrderID] = true, true
	}
	keyed := slices.ContainsFunc(rows, func(o api.Order) bool { return o.Key != "" })
	free := map[string][]string{} // orders that no answer names, by key if they have keys
	by := func(key string) string {
		if keyed {
			return key
		}
		return ""
	}
	for _, o := range rows {
		if !taken[o.OrderID] {
			taken[o.OrderID] = true
			free[by(o.Key)] = append(free[by(o.Key)], o.OrderID)
		}
	}
	for i, op := range ops {
		if op.Outcome != judge.OK || op.OrderID != "" {
			continue
		}
		if all := free[by(op.Key)]; len(all) > 0 {
			ops[i].OrderID, free[by(op.Key)] = all[0], all[1:]
		} else {
			ops[i].OrderID = fmt.Sprintf("none (answer %d)", i+1) // no such order: the judge will find it missing
		}
	}
	return ops
}

// sameKeys takes away what is no key: those of rows, if no request had one of them, since a member "key" may be about
// something else.
func sameKeys(ops []judge.Op, rows []api.Order) {
	keys := map[string]bool{}
	for _, op := range ops {
		keys[op.Key] = true
	}
	if !slices.ContainsFunc(rows, func(o api.Order) bool { return o.Key != "" && keys[o.Key] }) {
		for i := range rows {
			rows[i].Key = ""
		}
	}
}

// InProgress makes a refusal busy that a key got while another request with it was unanswered: services say so of a key
// that is in progress, often by the status of a refusal. It returns how many there were, for [SayBusyKeys].
func InProgress(ops []judge.Op) (n int) {
	byKey := map[string][]int{}
	for i, op := range ops {
		if op.Key != "" {
			byKey[op.Key] = append(byKey[op.Key], i)
		}
	}
	was := slices.Clone(ops) // of two that are refused, one stays so
	for i, op := range was {
		if op.Outcome != judge.Refused {
			continue
		}
		if slices.ContainsFunc(byKey[op.Key], func(k int) bool {
			o := was[k]
			return k != i && o.Call < op.Return && (o.Outcome == judge.Unknown || op.Call < o.Return &&
				(o.Outcome != judge.Refused || op.Return < o.Return)) // of two that are refused, the last may be sold out
		}) {
			ops[i].Outcome, ops[i].Code = judge.Declined, api.InFlight
			n++
		}
	}
	return n
}

// SayBusyKeys says of so many answers what settles them.
var SayBusyKeys = text.Of("%d [answer|answers] had the status of sold out, but came while another request with the " +
	"same key was unanswered, or said something else than at a stock of zero, and [counts|count] as busy: --declined " +
	"and --declined-body, or --refused-body, tell them apart")
