package stocktest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/stock"
	"lastitem/judge"
	"lastitem/testkit/testenv"
)

// Plan is a load that asks for more units than there are.
type Plan struct {
	Mode     string
	Store    stock.Store
	Replicas int // how many of the harness take part
	Stock    int64
	Quantity int64
	Segments int
	// Clients is the number of concurrent clients, which start together; Requests is how many requests they send in all.
	Clients, Requests int
	// PerBuyer is the limit per buyer; two clients at a time ask for one buyer. 0 = no limit, and no buyers.
	PerBuyer int64
	// Twice makes each client repeat each request with its key.
	Twice bool
	// Wait is the longest wait for locks; 0 = as long as the load makes progress, because the longest wait in a queue
	// depends on the server.
	Wait time.Duration
	// Hold is how each request wants its lock held.
	Hold stock.Hold
}

// Load runs a plan on a new product and returns the judge's report.
func (h *Harness) Load(t testing.TB, p Plan) judge.Report {
	t.Helper()
	modes := stock.Modes()
	m := modes[slices.IndexFunc(modes, func(m stock.Mode) bool { return m.Name == p.Mode })]
	product := h.made(t, p.Stock, ledger.Rules{Segments: p.Segments, PerBuyer: p.PerBuyer, Units: m.Units()})
	begin, start := time.Now(), make(chan struct{})
	histories, times := make([][]judge.Op, p.Clients), 1
	if p.Twice {
		times = 2
	}
	var wg sync.WaitGroup
	ctx, progress := testenv.Progress(t, Patience)
	for c := range p.Clients {
		wg.Go(func() {
			<-start
			for i := c; i < p.Requests; i += p.Clients {
				req := Request(product, p.Quantity, fmt.Sprintf("%d/%d", product, i))
				if p.PerBuyer > 0 {
					req.Buyer = fmt.Sprintf("%d/%d", i/p.Clients, c/2)
				}
				for range times {
					histories[c] = append(histories[c], h.send(ctx, t, p, begin, c, req))
					progress()
				}
			}
		})
	}
	close(start)
	wg.Wait()
	history := slices.Concat(histories...)
	for i, op := range history {
		if m.NoInbox && op.Outcome == judge.OK { // the order has an id of its own
			end, err := h.Replicas[0].Ticket(ctx, stock.TicketID(product, op.OrderID), Patience)
			if err != nil {
				t.Fatalf("Ticket() = %v", err)
			}
			history[i].OrderID = end.OrderID
		}
	}
	return judge.Judge(judge.Input{
		Mode: p.Mode, Store: api.Store(p.Store), Replicas: p.Replicas, Ledger: h.Ledger(t, product),
		History: history, WantSoldOut: true, PerBuyer: p.PerBuyer,
	})
}

// send sends one request of one client and returns what the client has learnt.
func (h *Harness) send(ctx context.Context, t testing.TB, p Plan, begin time.Time, client int,
	req stock.Request) judge.Op {
	r := h.Replicas[client%p.Replicas]
	req.Store, req.Wait = p.Store, cmp.Or(p.Wait, lockTTL)
	req.Hold = p.Hold
	op := judge.Op{Client: client, ProductID: req.Items[0].ProductID, Quantity: p.Quantity, Key: string(req.Key),
		Buyer: req.Buyer, Replica: r.Options.Replica}
	op.Call = time.Since(begin).Nanoseconds()
	receipt, err := r.Shop.Deduct(ctx, p.Mode, req)
	op.Return = time.Since(begin).Nanoseconds()
	op.OrderID, op.Remaining, op.Replayed = receipt.OrderID, receipt.Remaining, receipt.Replayed
	if receipt.Replayed {
		op.Outcome, op.OrderID = replayed(t, *receipt.Stored)
		return op
	}
	if op.Outcome, op.Code = Outcome(err); op.Outcome == "" {
		t.Errorf("Deduct() = %v, which wraps no sentinel", err)
	}
	return op
}

// Outcome returns what a client knows after an error of a deduction; "" = the error wraps no sentinel.
func Outcome(err error) (judge.Outcome, api.Code) {
	for _, row := range []struct {
		err     error
		outcome judge.Outcome
		code    api.Code
	}{
		{stock.ErrUnknown, judge.Unknown, api.OutcomeUnknown},
		{stock.ErrSoldOut, judge.Refused, api.SoldOut},
		{stock.ErrInFlight, judge.Declined, api.InFlight},
		{stock.ErrLockBusy, judge.Declined, api.LockBusy},
		{stock.ErrLockLost, judge.Declined, api.LockLost},
		{stock.ErrContended, judge.Declined, api.Contended},
		{stock.ErrLockUnavailable, judge.Declined, api.BackendUnavailable},
		{stock.ErrLockClosed, judge.Declined, api.BackendUnavailable},
		{stock.ErrUnavailable, judge.Declined, api.BackendUnavailable},
		{stock.ErrLimit, judge.Declined, api.LimitReached},
		{stock.ErrKeyReused, judge.Declined, api.KeyReused},
	} {
		if errors.Is(err, row.err) {
			return row.outcome, row.code
		}
	}
	if err == nil {
		return judge.OK, ""
	}
	return "", ""
}

// Answer renders an outcome as a client would get it.
func Answer(r stock.Receipt, err error) idempotency.Answer {
	if err != nil {
		return idempotency.Answer{Status: http.StatusConflict, Body: []byte(err.Error())}
	}
	body, _ := json.Marshal(api.Deduction{OrderID: r.OrderID, Remaining: r.Remaining})
	return idempotency.Answer{Status: http.StatusOK, Body: body}
}

// replayed reads an answer that [Answer] rendered.
func replayed(t testing.TB, a idempotency.Answer) (judge.Outcome, string) {
	if a.Status != http.StatusOK {
		return judge.Refused, ""
	}
	var d api.Deduction
	if err := json.Unmarshal(a.Body, &d); err != nil {
		t.Errorf("replayed %q: %v", a.Body, err)
	}
	return judge.OK, d.OrderID
}

// Ledger returns a product's ledger as the API shows it.
func (h *Harness) Ledger(t testing.TB, product int64) *api.Ledger {
	t.Helper()
	l, err := h.Replicas[0].Ledger(t.Context(), product)
	if err != nil {
		t.Fatalf("Ledger(%d): %v", product, err)
	}
	out := &api.Ledger{
		ProductID: product, Initial: map[api.Store]int64{}, Stock: map[api.Store]int64{},
		Adjustments: map[api.Store][]api.Adjustment{}, Released: map[api.Store]bool{},
		Unavailable: map[api.Store]string{},
	}
	for s, err := range l.Unavailable {
		out.Unavailable[api.Store(s)] = err.Error()
	}
	for s, f := range l.Facts {
		out.Initial[api.Store(s)], out.Stock[api.Store(s)] = f.Initial, f.Stock
		out.Released[api.Store(s)] = f.Released
		for _, a := range f.Adjustments {
			out.Adjustments[api.Store(s)] = append(out.Adjustments[api.Store(s)], api.Adjustment{Delta: a.Delta,
				Key: string(a.Key)})
		}
		if s == stock.Redis {
			out.Segments = f.Segments
		}
		for _, o := range f.Orders {
			out.Orders = append(out.Orders, api.Order{
				OrderID: o.ID, ProductID: o.ProductID, Quantity: o.Quantity, Remaining: o.Remaining, Mode: o.Mode,
				Store: api.Store(s), Replica: o.Replica, Key: api.KeyText(o.Key), Fence: o.Fence, CreatedAt: o.CreatedAt(),
			})
		}
		for _, k := range f.Keys {
			out.Keys = append(out.Keys, api.KeyRow{Key: api.KeyText(k.Key), Status: k.Status,
				CreatedAt: time.UnixMicro(k.CreatedMicros), Mode: k.Mode})
		}
	}
	return out
}

// ExactTwice sends every request twice with its key, from clients of several replicas, and wants each charged once.
func (h *Harness) ExactTwice(t *testing.T, mode string, s stock.Store) {
	t.Helper()
	p := Plan{Mode: mode, Store: s, Replicas: 3, Stock: 30, Quantity: 1, Clients: 9, Requests: 45, Twice: true}
	WantClaim(t, h.Shown(t, p, api.Exact), api.Exact, "every request twice")
}

// Shown repeats a load until it could show a claim, and returns the judge's last report.
func (h *Harness) Shown(t testing.TB, p Plan, claim api.Outcomes) (r judge.Report) {
	t.Helper()
	for range Rounds {
		r = h.Load(t, p)
		if r.Verdict != judge.Vacuous && (r.Verdict != judge.Exact || claim == api.Exact) {
			break
		}
	}
	return r
}

// WantClaim fails unless a report confirms a claim; of says in a failure what was tried.
func WantClaim(t testing.TB, r judge.Report, claim api.Outcomes, of ...any) {
	t.Helper()
	if finding, why := judge.Check(r, claim); finding != judge.Confirmed {
		t.Errorf("%v: claim %q: %s, want confirmed:\n\t%s\n%s", of, claim, finding, strings.Join(why, "\n\t"),
			r.Text("en"))
	}
}
