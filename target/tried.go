package target

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// tried is what the purchase before a run has shown of a product.
type tried struct {
	order    row              // the row that it wrote; nil = orders cannot be read
	ids      []string         // of orders that the run does not count; without resets they stay
	counts   bool             // the total of the list of orders counts its rows
	quantity bool             // the row says how many units it is about
	parts    map[string]int64 // of the stock
	sold     Reply            // the answer
}

// The names under which a row says whose product it is of, and what became of it.
var (
	productNames = []string{"product_id", "productid", "product", "sku", "item_id", "itemid", "variant_id", "variantid",
		"goods_id", "goodsid"}
	stateNames = []string{"status", "state", "order_status", "orderstatus", "order_state"}
	endedNames = []string{"cancelled", "canceled", "cancelled_at", "canceled_at", "refunded_at", "voided_at", "deleted_at"}
	ended      = regexp.MustCompile(`(?i)cancel|refund|void|reject|fail|expire|取消|退款|作废|失败`)
)

// fits returns an error if a row cannot be an order of the product that stands: it is of another product than the row
// that was tried, or it was cancelled.
func (t tried) fits(o row) error {
	for _, name := range productNames {
		if want, is := t.order[name], o[name]; want != "" && is != "" && is != want && !strings.HasPrefix(is, "{") {
			return unfit(text.Of("--orders-...: the row %s is of another product, by its %s, which was %s: give the orders "+
				"of {{product}} only"), o, name, want)
		}
	}
	if q, _ := o.quantity(); strings.HasPrefix(q, "-") {
		return unfit(text.Of("--orders-...: the row %s gives units back: give the orders that stand, without the "+
			"returned ones"), o)
	}
	for _, name := range stateNames {
		if o[name] != t.order[name] && ended.MatchString(o[name]) {
			return unfit(text.Of("--orders-...: the row %s does not stand any more: leave such rows out"), o)
		}
	}
	for _, name := range endedNames {
		if v := strings.ToLower(o[name]); o[name] != t.order[name] && v != "" && v != "false" && v != "0" && v != "null" {
			return unfit(text.Of("--orders-...: the row %s does not stand any more: leave such rows out"), o)
		}
	}
	return nil
}

// short is a part of a stock that has fallen below zero since the trial; "" = none. Rows that come and go are
// movements, not parts.
func (t tried) short(parts map[string]int64) string {
	if len(parts) < 2 || len(parts) != len(t.parts) {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if before, there := t.parts[name]; there && before >= 0 && parts[name] < 0 {
			return fmt.Sprintf("%s: %d", name, parts[name])
		}
	}
	return ""
}

// State is what some rows say of their state, in a member whose value is another in the row of the trial.
type State struct {
	Member string
	Row    string          // one of them
	Orders map[string]bool // by id
}

var (
	telling = regexp.MustCompile(`stat(us|e)|stage|phase|outcome|result|reason|type|kind|^is_`)
	nothing = regexp.MustCompile(`^(0|null|false|"")?$`)
)

// mostStates is how many values a member has at most that says a state.
const mostStates = 8

// flat is a row with the members of its objects, as payment.state.
func (r row) flat() row {
	all := maps.Clone(r)
	for name, v := range r {
		var inner map[string]any
		if !strings.HasPrefix(v, "{") || json.Unmarshal([]byte(v), &inner) != nil {
			continue
		}
		delete(all, name)
		for member, v := range inner {
			all[name+"."+member] = fmt.Sprint(v)
		}
	}
	return all
}

// mayTell says of a member with such values, of the row of the trial and of the other rows, whether it may be a state:
// it has a telling name, it has two values, or nothing was in it when the trial was sold.
func mayTell(member, tried string, values map[string]bool) bool {
	return telling.MatchString(member) || nothing.MatchString(tried) ||
		len(values) == 1 || len(values) == 2 && values[tried]
}

// states are the states of rows: of each member that may be a state, or is not in every row, the rows with another
// value than the row of the trial, and those with each value.
func (t tried) states(rows []row, orders []api.Order) (all []State) {
	if t.order == nil {
		return nil
	}
	groups, values := map[[2]string]State{}, map[string]int{}
	trial, seen := t.order.flat(), map[string]map[string]bool{}
	for i := range rows {
		for member, v := range rows[i].flat() {
			if seen[member] == nil {
				seen[member] = map[string]bool{}
			}
			seen[member][v] = true
		}
	}
	byID := map[string]string{}
	for i, o := range rows {
		byID[o.first(IDNames)] = orders[i].OrderID
	}
	for i, o := range rows {
		flat := o.flat()
		names := maps.Clone(flat)
		maps.Copy(names, trial)
		for member := range names {
			before, had := trial[member]
			now, has := flat[member]
			if before == now || had && has && !mayTell(member, before, seen[member]) {
				continue
			}
			for _, at := range [][2]string{{member}, {member, "is " + now}} {
				if groups[at].Orders == nil {
					groups[at] = State{member, o.String(), map[string]bool{}}
					values[member]++
				}
				groups[at].Orders[orders[i].OrderID] = true
				if undone := byID[now]; !had && undone != "" { // a refund that names its order: neither stands
					groups[at].Orders[undone] = true
				}
			}
		}
	}
	order := func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }
	for _, at := range slices.SortedFunc(maps.Keys(groups), order) {
		if at[1] == "" || values[at[0]] <= mostStates {
			all = append(all, groups[at])
		}
	}
	return all
}
