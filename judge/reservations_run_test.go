package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
)

// races is a run that could have shown everything, over two replicas, with n holds of all that there is. The deadline
// of each, at 10.1 s by both clocks, passes during its confirm; a sweep wins the first so many, at 10.1001 s. One buyer
// is refused, and one has reached his limit.
func races(n, swept int) (book *api.Reservations, ops []ReservationOp) {
	book = &api.Reservations{Initial: int64(n), Stock: int64(swept), PerBuyer: 1, AsOfMicros: 12_000_001,
		BuyerUnits: map[string]int64{}}
	for i := range n {
		id, buyer, payment, order, at := fmt.Sprint("h", i), fmt.Sprint("b", i), fmt.Sprint("p", i), "", 10_000_001+int64(i)
		row := api.ReservationRow{ReservationID: id, Mode: "m", Buyer: buyer, Replica: fmt.Sprint(i % 2), State: confirmed,
			Quantity: 1, ExpiresMicros: 10_100_000, Late: ledger.LateRefund,
			Events: []api.ReservationEvent{{Now: held, DeadlineMicros: 10_100_000, AtMicros: at}}}
		end := api.ReservationEvent{Was: held, Now: confirmed, DeadlineMicros: 10_100_000, AtMicros: 10_099_950}
		confirm := ReservationOp{Kind: Confirm, Outcome: OK, ReservationID: id, PaymentID: payment, Call: 10_099_900e3,
			Return: 10_100_200e3}
		if i < swept {
			row.State, confirm.Outcome, confirm.Refund, confirm.Expired = expired, Refused, true, true
			end.Now, end.AtMicros, end.CommittedMicros = expired, 10_100_050, 10_100_100
		} else {
			order = fmt.Sprint("o", i)
			row.Orders = []api.ReservationOrder{{OrderID: order, Payment: payment, Buyer: buyer, Quantity: 1}}
			book.BuyerUnits[buyer] = 1
		}
		row.Events, confirm.OrderID = append(row.Events, end), order
		row.Payments = []api.ReservationPaid{{Payment: payment, OrderID: order}}
		book.Rows = append(book.Rows, row)
		ops = append(ops, ReservationOp{Kind: Reserve, Outcome: OK, ReservationID: id, Buyer: buyer, Quantity: 1,
			Call:   (at - 5) * 1000,
			Return: (at + 5) * 1000}, confirm)
	}
	refused := ReservationOp{Kind: Reserve, Outcome: Refused, Buyer: "b0", Quantity: 1, Call: 10_050_000e3,
		Return: 10_050_001e3}
	limited := refused
	limited.Limit, limited.Call, limited.Return = true, 10_050_002e3, 10_050_003e3
	return book, append(ops, refused, limited)
}

// A run says what it could not have shown, and why it proves nothing.
func TestHoldRunProves(t *testing.T) {
	t.Parallel()
	type run struct {
		ReservationRun
		book  *api.Reservations
		ops   []ReservationOp
		stock int64
	}
	each := func(kind ReservationKind, do func(op *ReservationOp)) func(r *run) {
		return func(r *run) {
			for i := range r.ops {
				if r.ops[i].Kind == kind {
					do(&r.ops[i])
				}
			}
		}
	}
	unknown := func(op *ReservationOp) { op.Outcome = Unknown }
	later := each(Confirm, func(op *ReservationOp) {
		if op.Refund {
			op.Call, op.Return = op.Call+150_000, op.Return+150_000
		}
	})
	for name, tt := range map[string]struct {
		n, swept int
		change   func(r *run)
		verdict  Verdict
		says     string // "" = nothing
	}{
		"all":             {20, 10, nil, Exact, ""},
		"at the sweep":    {20, 19, later, Exact, ""},
		"few":             {19, 10, nil, Exact, "only 19 reservations had one, want 20"},
		"none confirmed":  {20, 20, nil, Vacuous, "of 20 reservations that had one, 0 were confirmed and 20 expired"},
		"none expired":    {20, 0, nil, Exact, "of 20 reservations that had one, 20 were confirmed and 0 expired"},
		"without answers": {20, 10, each(Confirm, unknown), Exact, "only 0"},
		"before":          {20, 10, each(Confirm, func(op *ReservationOp) { op.Return -= 250_000 }), Exact, "only 0"},
		"without clocks":  {20, 10, each(Reserve, func(op *ReservationOp) { op.Call, op.Return = 0, 1 }), Exact, "only 0"},
		"confirmed twice": {20, 0, func(r *run) { r.ops = append(r.ops, r.ops[1]) }, Exact, "one, 20 were confirmed and 0"},
		"expired by the confirm": {20, 19, func(r *run) {
			later(r)
			for _, row := range r.book.Rows {
				row.Events[1].CommittedMicros = row.Events[1].AtMicros
			}
		}, Exact, "only 1 "},
		"bought after the sweep": {20, 20, func(r *run) {
			for i, row := range r.book.Rows[:19] {
				again := api.ReservationEvent{Was: expired, Now: confirmed, AtMicros: 10_100_200}
				row.State, row.Late, row.Events = confirmed, ledger.LateRehold, append(row.Events, again)
				r.book.Rows[i] = row
			}
		}, Broken, "0 were confirmed and 20 expired"},
		"another stock": {20, 10, func(r *run) { r.stock, r.book.Stock = 9, 11 }, Inconclusive, "the stock was set to 20"},
		"stopped":       {20, 10, func(r *run) { r.Stopped = true }, Vacuous, "stopped"},
		"nothing held":  {20, 10, each(Reserve, unknown), Vacuous, "nothing was held; "},
		"nothing sold":  {20, 20, nil, Vacuous, "nothing was sold; limit_reached 1, refused 1"},
		"nobody refused": {20, 10, func(r *run) { unknown(&r.ops[40]) }, Vacuous,
			"no request was refused as sold out; limit_reached 1, unknown 1;"},
		"as meant":            {9, 5, func(r *run) { unknown(&r.ops[18]); r.ReservationRun = ReservationRun{} }, Exact, ""},
		"one replica":         {1, 0, nil, Vacuous, "replica 0 served everything"},
		"one after the other": {1, 0, nil, Vacuous, "no two requests ran at the same time"},
		"units that count twice": {20, 10, func(r *run) { r.book.Stock += 3 }, Broken,
			"oversold 0, counted twice 3; claimed exact, but stock 13, held 0, ordered 10"},
		"sold twice": {20, 0, func(r *run) { r.book.Initial, r.stock = 19, 19 }, Broken,
			"oversold 1, counted twice 1; claimed exact, but stock 0, held 0, ordered 20"},
		"held at once, and more": {20, 10, func(r *run) { r.book.Initial, r.stock, r.book.Stock = 18, 18, 9 }, Broken,
			"oversold 2, counted twice 1; claimed exact, but stock 9, held 0, ordered 10"},
	} {
		r := run{ReservationRun: ReservationRun{Mode: "m", Replicas: 2, WantSoldOut: true, Expiry: true}}
		r.book, r.ops = races(tt.n, tt.swept)
		r.stock = r.book.Initial
		if tt.change != nil {
			tt.change(&r)
		}
		r.Stock = &r.stock
		got := r.Judge(r.book, r.ops, "en")
		said := slices.Concat(got.Missing, got.Unchecked)
		if got.Verdict == Broken {
			_, why := Check(got.Report, api.Exact)
			why[0] = fmt.Sprintf("oversold %d, counted twice %d; %s", got.Oversold, got.LostUpdates, why[0])
			said = append(said, why...)
		}
		all := strings.Join(append(said, ""), "; ")
		if got.Verdict != tt.verdict || !strings.Contains(all, tt.says) || tt.says == "" && all != "" {
			t.Errorf("%s: %s %q of %v %v, want %s and %q", name, got.Verdict, all, got.Violations, got.Consequences, tt.verdict,
				tt.says)
		}
	}
}
