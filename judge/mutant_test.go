package judge

import (
	"slices"
	"strings"
	"testing"

	"lastitem/contract/api"
)

func TestGoodIsExact(t *testing.T) {
	t.Parallel()
	r := Judge(good())
	if r.Verdict != Exact || r.Found != "" || len(r.Violations)+len(r.Missing)+len(r.Unchecked)+len(r.Evidence) > 0 {
		t.Fatalf("Judge(good) = %s %q\n%s", r.Verdict, r.Found, r.Text("en"))
	}
	if r.Orders != 7 || r.Sold != 10 || r.Answers[Unknown] != 3 || r.Replicas["2"] != 3 {
		t.Errorf("Judge(good) counts %d orders, %d units, %v, %v", r.Orders, r.Sold, r.Answers, r.Replicas)
	}
}

// mutant breaks the good run in one place. Of the report it expects the verdict, the letters, and a phrase among the
// violations ("" = none), or among the reasons where the verdict is not BROKEN.
type mutant struct {
	name    string
	change  func(in *Input, l *api.Ledger)
	verdict Verdict
	found   string
	phrase  string
}

// drop removes the rows or requests with these order ids.
func drop(in *Input, l *api.Ledger, ids ...string) {
	l.Orders = slices.DeleteFunc(l.Orders, func(o api.Order) bool { return slices.Contains(ids, o.OrderID) })
	in.History = slices.DeleteFunc(in.History, func(o Op) bool { return slices.Contains(ids, o.OrderID) })
}

// keep leaves only the requests with these outcomes.
func keep(in *Input, outcomes ...Outcome) {
	in.History = slices.DeleteFunc(in.History, func(o Op) bool { return !slices.Contains(outcomes, o.Outcome) })
}

var ledgerMutants = []mutant{
	{"stock one more", func(_ *Input, l *api.Ledger) { l.Stock[api.SQL]++ }, Broken, "O", ""},
	{"one unit more at the start", func(_ *Input, l *api.Ledger) { l.Initial[api.SQL]++ }, Broken, "L", ""},
	{"stock below zero, every unit ordered", func(_ *Input, l *api.Ledger) {
		l.Stock[api.SQL]--
	}, Broken, "", "is at -1: 1 unit was taken from below zero"},
	{"stock below zero, and a unit leaked", func(_ *Input, l *api.Ledger) {
		l.Initial[api.SQL], l.Stock[api.SQL] = 11, -2
	}, Broken, "L", "is at -2: 2 units were taken from below zero"},
	{"negative stock, an order for each unit", func(in *Input, l *api.Ledger) {
		l.Stock[api.SQL] = -1
		l.Orders = append(l.Orders, row("o8", 1, -1, "", 8))
		in.History = append(in.History, op(OK, 96, 105, 1, "o8", ""))
	}, Broken, "O", ""},
	{"lost update, stock at 0", func(in *Input, l *api.Ledger) {
		l.Orders = append(l.Orders, row("o8", 1, 5, "", 3)) // written after the other, by its time before it
		in.History = append(in.History, op(OK, 21, 41, 1, "o8", ""))
	}, Broken, "O", ""},
	{"a segment below nothing, the sum right", func(in *Input, l *api.Ledger) {
		in.Store, l.Segments = api.Redis, []int64{-1, 1}
		l.Stock[api.Redis] = 0
		for i := range l.Orders {
			l.Orders[i].Store = api.Redis
		}
	}, Broken, "", "segment 0 holds -1"},
	{"row dropped", func(_ *Input, l *api.Ledger) { l.Orders = slices.Delete(l.Orders, 1, 2) }, Broken, "LA", ""},
	{"row dropped and its unit put back", func(_ *Input, l *api.Ledger) {
		l.Orders = slices.Delete(l.Orders, 1, 2)
		l.Stock[api.SQL]++
	}, Broken, "A", ""},
	{"row and request dropped, its unit put back, and later orders found it gone", func(in *Input, l *api.Ledger) {
		drop(in, l, "o2")
		l.Stock[api.SQL]++
	}, Broken, "", "left less than the 1 in stock now, and a deduction never raises the stock"},
	{"row repeated", func(_ *Input, l *api.Ledger) {
		l.Orders = append(l.Orders, l.Orders[1])
	}, Broken, "O", "the id of another"},
	{"row without id", func(_ *Input, l *api.Ledger) { l.Orders[5].OrderID = "" }, Broken, "", "no id"},
	{"row for nothing", func(_ *Input, l *api.Ledger) {
		l.Orders = append(l.Orders, row("o8", 0, 0, "", 8))
	}, Broken, "", "of zero or less"},
	{"row of negative quantity hides another", func(_ *Input, l *api.Ledger) {
		l.Orders = append(l.Orders, row("o8", 1, 0, "", 8), row("o9", -1, 1, "", 9))
	}, Broken, "", "of zero or less"},
	{"absurd quantities that would wrap round to nothing", func(_ *Input, l *api.Ledger) {
		for _, id := range []string{"a", "b", "c", "d"} {
			l.Orders = append(l.Orders, row(id, 1<<62, 0, "", 9))
		}
	}, Broken, "O", "no answer accounts for"},
	{"two orders for a key", func(_ *Input, l *api.Ledger) {
		l.Orders[6].Key, l.Orders[6].OrderID = "k4", "o8"
	}, Broken, "DA", ""},
	{"a unit sold twice, a leak hides it", func(_ *Input, l *api.Ledger) {
		*l.Orders[1].Remaining = 9
	}, Broken, "", "in more than one order"},
	{"remaining above the stock", func(_ *Input, l *api.Ledger) {
		*l.Orders[0].Remaining = 10
	}, Broken, "", "can have found"},
	{"remaining below nothing", func(_ *Input, l *api.Ledger) {
		*l.Orders[6].Remaining = -1
	}, Broken, "", "a negative remaining count"},
	{"stored answer without its order", func(_ *Input, l *api.Ledger) {
		l.Keys = append(l.Keys, api.KeyRow{Key: "k9", Status: 200})
	}, Broken, "", "an order that is not there"},
	{"order without its stored answer", func(_ *Input, l *api.Ledger) {
		l.Keys = l.Keys[:1]
	}, Broken, "", "no stored answer"},
	{"stored refusal with an order", func(_ *Input, l *api.Ledger) { l.Keys[1].Status = 409 }, Broken, "", "is a refusal"},
}

var historyMutants = []mutant{
	{"two units for a buyer who may have one", func(in *Input, _ *api.Ledger) {
		in.PerBuyer, in.History[firstOK].Buyer, in.History[firstOK+1].Buyer = 1, "ann", "ann"
	}, Broken, "B", ""},
	{"limit_reached for a buyer with room", func(in *Input, _ *api.Ledger) {
		o := &in.History[theDeclined]
		in.PerBuyer, o.Buyer, o.Code = 1, "ann", api.LimitReached
		in.History[lastOK].Buyer = "ann" // called after that answer
	}, Broken, "", "while the buyer must have had room"},
	{"ok without a row", func(in *Input, _ *api.Ledger) {
		in.History = append(in.History, op(OK, 21, 41, 1, "o8", ""))
	}, Broken, "A", ""},
	{"ok without an order id", func(in *Input, _ *api.Ledger) {
		in.History[firstOK].OrderID = ""
	}, Broken, "", "no order id"},
	{"ok of another quantity", func(in *Input, _ *api.Ledger) {
		in.History[firstOK].Quantity = 2
	}, Broken, "", "with quantity 2 and is stored with"},
	{"ok of another product", func(in *Input, _ *api.Ledger) {
		in.History[firstOK].ProductID = 7
	}, Broken, "", "is stored for product"},
	{"ok under another key", func(in *Input, _ *api.Ledger) {
		in.History[keyedOK].Key = "k9"
	}, Broken, "", "another idempotency key"},
	{"two keys that were told each other's order", func(in *Input, _ *api.Ledger) {
		in.History[keyedOK].OrderID, in.History[theReplay].OrderID = "o5", "o5"
		in.History[keyedGone] = op(OK, 55, 61, 1, "o4", "k5")
	}, Broken, "", "another idempotency key"},
	{"one order acknowledged to two", func(in *Input, _ *api.Ledger) {
		in.History = append(in.History, op(OK, 21, 41, 1, "o4", ""))
	}, Broken, "", "acknowledged to another request"},
	{"ok after the last unit", func(in *Input, l *api.Ledger) {
		in.History = append(in.History, op(OK, 120, 130, 1, "o8", ""))
		l.Orders = append(l.Orders, row("o8", 1, -1, "", 8))
	}, Broken, "O", ""},
	{"replay with another order id", func(in *Input, _ *api.Ledger) {
		in.History[theReplay].OrderID = "o7"
	}, Broken, "", "from the first answer for"},
	{"replay of an order that is not there", func(in *Input, _ *api.Ledger) {
		in.History[theReplay].OrderID = "o9"
	}, Broken, "A", "from the first answer for"},
	{"replay of another key's order", func(in *Input, _ *api.Ledger) {
		in.History[keyedOK].Outcome, in.History[keyedOK].OrderID = Unknown, ""
		in.History[theReplay].Key = "k9"
	}, Broken, "", "another idempotency key"},
	{"replay of a request without a key", func(in *Input, _ *api.Ledger) {
		in.History[theReplay].Key = ""
	}, Broken, "", "from the first answer for"},
	{"replay not marked", func(in *Input, _ *api.Ledger) {
		in.History[theReplay].Replayed = false
	}, Broken, "", "acknowledged to another request"},
	{"double charge of a mode that stores no keys", func(in *Input, l *api.Ledger) {
		l.Keys, l.Orders[3].Key, l.Orders[4].Key = nil, "", ""
		in.History[theReplay].Replayed, in.History[theReplay].OrderID = false, "o5"
		in.History = slices.Delete(in.History, keyedGone, keyedGone+1)
	}, Broken, "D", ""},
	{"refused while in stock", func(in *Input, _ *api.Ledger) {
		in.History[earlyNo].Return = 61
	}, Broken, "", "refused though in stock"},
	{"refused for less than was left", func(in *Input, _ *api.Ledger) {
		in.History[earlyNo].Quantity = 1
	}, Broken, "", "refused though in stock"},
	{"sells nothing", func(in *Input, l *api.Ledger) {
		l.Orders, l.Keys, l.Stock[api.SQL] = nil, nil, 10
		keep(in, Refused)
	}, Broken, "", "refused though in stock"},
	{"row for a declined request", func(in *Input, l *api.Ledger) {
		in.History[theDeclined].Key = "k8"
		l.Orders[5].Key = "k8"
		l.Keys = append(l.Keys, api.KeyRow{Key: "k8", Status: 200})
	}, Broken, "", "told that nothing happened"},
	{"row for a refused request", func(_ *Input, l *api.Ledger) {
		l.Orders[5].Key, l.Keys[2].Status = "k6", 200
	}, Broken, "", "told that nothing happened"},
	{"row that nobody asked for", func(in *Input, _ *api.Ledger) {
		in.History[lastOK].Outcome, in.History[7].Outcome = Declined, Declined
	}, Broken, "", "no answer accounts for"},
	{"row of a quantity that nobody asked for", func(in *Input, _ *api.Ledger) {
		in.History[6].Quantity = 2
		in.History[lastNo].Return = 111
	}, Broken, "", "no answer accounts for"},
	{"later sale left more", func(in *Input, _ *api.Ledger) {
		in.History[firstOK].OrderID, in.History[keyedOK-2].OrderID = "o2", "o1"
		in.History[firstOK].Return, in.History[1].Call = 4, 5
	}, Broken, "", "a sale that began after"},
	{"busy forever", func(in *Input, l *api.Ledger) {
		drop(in, l, "o7")
		l.Stock[api.SQL] = 1
		in.History[len(in.History)-1] = op(Declined, 96, 100, 1, "", "")
		in.History = append(in.History, op(Declined, 97, 101, 1, "", ""), op(Declined, 98, 102, 1, "", ""))
	}, Broken, "X", ""},
	{"busy from the start", func(in *Input, l *api.Ledger) {
		l.Orders, l.Keys, l.Stock[api.SQL] = nil, nil, 10
		in.History = []Op{op(Declined, 0, 9, 1, "", ""), op(Declined, 1, 9, 1, "", ""), op(Declined, 2, 9, 1, "", ""),
			op(Unknown, 3, 0, 1, "", "")}
	}, Broken, "X", ""},
}

var dataMutants = []mutant{
	{"no ledger", func(in *Input, _ *api.Ledger) { in.Ledger = nil }, Inconclusive, "", "could not be read"},
	{"no store", func(in *Input, _ *api.Ledger) { in.Store = "" }, Inconclusive, "", "no store was named"},
	{"store down", func(_ *Input, l *api.Ledger) {
		l.Unavailable = map[api.Store]string{api.SQL: "connection refused"}
	}, Inconclusive, "", "connection refused"},
	{"no initial", func(_ *Input, l *api.Ledger) { delete(l.Initial, api.SQL) }, Inconclusive, "", "at the start"},
	{"initial below nothing", func(_ *Input, l *api.Ledger) { l.Initial[api.SQL] = -1 }, Inconclusive, "", "at the start"},
	{"no stock", func(_ *Input, l *api.Ledger) { delete(l.Stock, api.SQL) }, Inconclusive, "", "holds now"},
	{"another product's ledger", func(_ *Input, l *api.Ledger) {
		l.ProductID = 7
	}, Inconclusive, "L", "are not of product 7"},
	{"another mode's orders", func(_ *Input, l *api.Ledger) {
		l.Orders[0].Mode, l.Stock[api.SQL] = "unsafe", 3
	}, Inconclusive, "O", "by another mode"},
	{"no history", func(in *Input, _ *api.Ledger) { in.History = nil }, Inconclusive, "", "history is not there"},
	{"empty history", func(in *Input, _ *api.Ledger) { in.History = []Op{} }, Inconclusive, "", "holds no request"},
	{"another product's request", func(in *Input, _ *api.Ledger) {
		in.History[theDeclined].ProductID = 7
	}, Inconclusive, "", "another product"},
	{"clock runs backwards", func(in *Input, _ *api.Ledger) {
		in.History[lastNo].Call = 200
	}, Inconclusive, "", "came before"},
	{"replicas unnamed", func(in *Input, l *api.Ledger) {
		for i := range in.History {
			in.History[i].Replica = ""
		}
		for i := range l.Orders {
			l.Orders[i].Replica = ""
		}
	}, Inconclusive, "", "name theirs"},
	{"segments do not add up", func(in *Input, l *api.Ledger) {
		in.Store, l.Segments, l.Stock[api.Redis] = api.Redis, []int64{1, 1}, 0
		for i := range l.Orders {
			l.Orders[i].Store = api.Redis
		}
	}, Inconclusive, "", "segments add up"},
	{"the replicas took turns", func(in *Input, _ *api.Ledger) {
		for i := range in.History {
			in.History[i].Replica = "1"
		}
		late := op(OK, 500, 510, 1, "o7", "")
		late.Replica = "2"
		in.History[lastOK] = late
		refused := op(Refused, 520, 530, 1, "", "k6")
		refused.Replica = "2"
		in.History[lastNo] = refused
		in.History = slices.DeleteFunc(in.History, func(o Op) bool { return o.Outcome == Unknown })
		l := in.Ledger
		l.Orders = slices.DeleteFunc(l.Orders, func(o api.Order) bool { return o.OrderID == "o5" || o.OrderID == "o6" })
		l.Keys = slices.DeleteFunc(l.Keys, func(k api.KeyRow) bool { return k.Key == "k5" })
		l.Initial[api.SQL] = 6
		for i := range l.Orders {
			l.Orders[i].Remaining = nil
		}
		in.History = slices.DeleteFunc(in.History, func(o Op) bool { return o.Outcome == Refused && o.Quantity == 2 })
	}, Vacuous, "", "on different replicas"},
	{"told another remaining than is stored", func(in *Input, _ *api.Ledger) {
		n := int64(77)
		in.History[firstOK].Remaining = &n
	}, Broken, "", "with 77 remaining"},
	{"a replay for another key of an order that was another's", func(in *Input, l *api.Ledger) {
		for i := range l.Orders {
			l.Orders[i].Key = ""
		}
		l.Keys = nil
		in.History[theReplay].Key = "other"
	}, Broken, "", "from the first answer for"},
	{"somebody else set the stock during the run", func(in *Input, l *api.Ledger) {
		in.Stock = new(int64(20))
		l.Orders = l.Orders[1:]
	}, Inconclusive, "LA", "set to 10 during the run, which had begun with 20"},
	{"one replica only", func(in *Input, l *api.Ledger) {
		for i := range in.History {
			in.History[i].Replica = "10.0.0.2:80"
		}
		for i := range l.Orders {
			l.Orders[i].Replica = "2"
		}
	}, Vacuous, "", "served everything"},
	{"the other replicas could not take part", func(in *Input, l *api.Ledger) {
		for i := range in.History {
			in.History[i].Replica = "2"
		}
		for i := range l.Orders {
			l.Orders[i].Replica = "2"
		}
		in.History[theDeclined].Replica, in.History[theDeclined].Code = "1", api.ModeUnavailable
	}, Vacuous, "", "served everything"},
	{"nobody tried", func(in *Input, l *api.Ledger) {
		l.Orders, l.Keys, l.Stock[api.SQL] = nil, nil, 10
		keep(in, Declined)
	}, Vacuous, "", "nothing was sold; lock_busy 1"},
	{"nothing to sell", func(in *Input, l *api.Ledger) {
		l.Orders, l.Keys, l.Initial[api.SQL] = nil, nil, 0
		keep(in, Refused)
	}, Vacuous, "", "nothing was sold; refused 2"},
	{"stock left", func(in *Input, l *api.Ledger) {
		drop(in, l, "o7")
		l.Stock[api.SQL] = 1
		keep(in, OK, Unknown)
	}, Vacuous, "", "1 of 10 units left"},
	{"nobody refused", func(in *Input, _ *api.Ledger) {
		keep(in, OK, Unknown)
	}, Vacuous, "", "no request was refused as sold out"},
	{"somebody stopped the run", func(in *Input, _ *api.Ledger) {
		in.Stopped = true
	}, Vacuous, "", "stopped before its end"},
	{"one after the other", func(in *Input, l *api.Ledger) {
		drop(in, l, "o4", "o5", "o6")
		l.Keys, l.Stock[api.SQL] = nil, 5
		*l.Orders[3].Remaining = 5
		keep(in, OK)
		in.WantSoldOut = false
		for i := range in.History {
			in.History[i].Call, in.History[i].Return = int64(2*i), int64(2*i+2)
		}
	}, Vacuous, "", "same time"},
}

func TestMutants(t *testing.T) {
	t.Parallel()
	for _, m := range slices.Concat(ledgerMutants, historyMutants, dataMutants) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			in := good()
			m.change(&in, in.Ledger)
			r := Judge(in)
			if r.Verdict != m.verdict || r.Found != m.found {
				t.Fatalf("Judge = %s %q, want %s %q\n%s", r.Verdict, r.Found, m.verdict, m.found, r.Text("en"))
			}
			said := strings.Join(r.Violations, "\n")
			if r.Verdict != Broken {
				said = strings.Join(r.Missing, "\n")
			}
			if !strings.Contains(said, m.phrase) || m.phrase == "" && said != "" {
				t.Errorf("Judge says %q, want %q", said, m.phrase)
			}
			checkMutant(t, m, in, r)
		})
	}
}

// checkMutant holds the mutant against the claim of exactness, and its Chinese text against formatting mistakes.
func checkMutant(t *testing.T, m mutant, in Input, r Report) {
	t.Helper()
	want := Undecided
	if m.verdict == Broken {
		want = Contradicted
	}
	if got, why := Check(r, api.Exact); got != want || len(why) == 0 {
		t.Errorf("Check(%q) = %s %q, want %s with a reason", api.Exact, got, why, want)
	}
	in.Lang = "zh"
	zh := Judge(in)
	_, why := Check(zh, "L")
	for _, text := range []string{r.Text("en"), zh.Text("zh"), strings.Join(why, "\n")} {
		if strings.Contains(text, "%!") {
			t.Errorf("badly formatted:\n%s", text)
		}
	}
}
