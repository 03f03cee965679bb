// Package trace deducts once on private servers, with a proxy before each of them, and lists the commands of that
// deduction as both sides saw them: when a command passed the wire and when its answer did, when the server saw it, how
// long it ran, and what its scripts did. Start with [New] and [Tracer.Deduct]; [Tracer.WriteTable] and
// [Trace.WriteStable] print what it returns, and [Tracer.JSON] is it for programs.
package trace

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/internal/backend"
	"lastitem/internal/stock"
	"lastitem/stack/wire"
	"lastitem/target"
)

const (
	product = 101
	timeout = 30 * time.Second
)

// Stock is how many units there are before the deduction.
const Stock = 100

// Deduction says what is traced.
type Deduction struct {
	Mode     stock.Mode
	Store    stock.Store // "" for the baseline
	Quantity int64       // 1 to [Stock]
	Key      string      // the Idempotency-Key, not empty
	Hold     stock.Hold  // as the request wants its lock held
	Rival    bool        // a second request comes while the first holds the lock
}

// Trace is one deduction, from the request to its answer.
type Trace struct {
	Deduction
	Target  string // of the request: path and query
	ask     target.Ask
	Status  int
	Answer  string
	Took    time.Duration
	Against *Rival        // nil = nobody else
	TTL     time.Duration // of the lock
	Steps   []Step
}

// Step is one command, from both sides of the wire. Times count from the beginning of the request, or are [Unknown].
type Step struct {
	Server     string
	Text       string
	Pattern    string        // the position's name in the fault lab
	About      string        // what a script says of itself
	Poll       bool          // stands where its answer came; it may have been sent before the request
	Sent, Took time.Duration // on the wire
	Seen, Ran  time.Duration // in the server
	Inside     []Step        // what a script did
}

// Unknown is a time that no side has reported.
const Unknown = time.Duration(math.MinInt64)

// at is where the step stands.
func (s Step) at() time.Duration {
	if s.Poll {
		return s.Sent + s.Took
	}
	return s.Sent
}

// Deduct sets the stock and deducts once, so that connections are open and scripts are loaded. Then it sets the stock
// again, deducts once more, and observes that deduction.
func (t *Tracer) Deduct(ctx context.Context, d Deduction) (Trace, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout+t.longer(d))
	defer cancel()
	tr := Trace{Deduction: d, TTL: t.ttl}
	tr.ask = target.Ask{Mode: d.Mode.Name, Store: api.Store(d.Store), Product: product, Quantity: d.Quantity, Key: d.Key,
		Wait: -1, For: d.Hold.Work, Depth: d.Hold.Depth}
	if d.Mode.Claims[d.Store].Threads == "B" { // it counts the orders of a buyer
		tr.ask.Buyer = "ann"
	}
	tr.Target = tr.ask.Call().InQuery().Path
	if err := t.prepare(ctx, tr); err != nil {
		return tr, err
	}
	for _, eye := range t.redises {
		if err := eye.forget(ctx); err != nil {
			return tr, err
		}
	}
	if t.mysql != nil {
		if err := t.mysql.forget(ctx); err != nil {
			return tr, err
		}
	}
	// Without its monotonic part, as the servers' times are: a process that loses its processor within [time.Now] reads
	// its two clocks up to 40 ms apart, and then a server would have seen a command after its answer.
	began := time.Now().Round(0)
	rival := t.sendRival(ctx, d, began)
	err := t.ask(ctx, &tr)
	tr.Took = time.Since(began)
	var late error
	tr.Against, late = rival()
	err = errors.Join(err, late)
	if err != nil {
		return tr, err
	}
	ended := time.Now()
	settled, err := t.settle(ctx, d.Mode, began, ended)
	if err != nil {
		return tr, err
	}
	var views []observed
	for _, eye := range t.redises {
		view, err := eye.look(ctx)
		if err != nil {
			return tr, err
		}
		views = append(views, view...)
	}
	if t.mysql != nil {
		view, err := t.mysql.look(ctx, began, ended)
		if err != nil {
			return tr, err
		}
		views = append(views, view...)
	}
	tr.Steps = join(t.calls(began, settled), views, began)
	t.explain(tr.Steps)
	return tr, nil
}

// prepare empties the stores and does everything that comes before the observed deduction.
func (t *Tracer) prepare(ctx context.Context, tr Trace) error {
	if t.replica.Backends.Client != nil {
		if err := t.replica.Backends.Client.FlushAll(ctx).Err(); err != nil {
			return err
		}
	}
	if err := t.replica.Backends.DB.WithContext(ctx).Exec("DELETE FROM product_stock").Error; err != nil {
		return err
	}
	if err := t.available(ctx, tr.Mode.Name); err != nil {
		return err
	}
	if err := t.setStock(ctx, tr.Mode); err != nil {
		return err
	}
	warm, began := t.warm(tr), time.Now()
	if err := t.ask(ctx, &warm); err != nil {
		return err
	}
	if warm.Status != http.StatusOK && warm.Status != http.StatusAccepted {
		return fmt.Errorf("%s answers %d %s", tr.Target, warm.Status, warm.Answer)
	}
	if _, err := t.settle(ctx, tr.Mode, began, time.Now()); err != nil {
		return err
	}
	if tr.Mode.Segments > 0 && t.replica.Backends.Client != nil {
		// The segment is random: its fencing counter must not exist by chance.
		if err := t.replica.Backends.Client.FlushAll(ctx).Err(); err != nil {
			return err
		}
	}
	return t.setStock(ctx, tr.Mode)
}

// available waits until the backends of a mode have been asked and have answered.
func (t *Tracer) available(ctx context.Context, mode string) error {
	for {
		status, err := t.replica.Shop.Mode(mode)
		if slices.Contains(status.Mode.Needs, stock.NeedMySQL) && !t.replica.Backends.SQL.MySQL() {
			return fmt.Errorf("mode %s is not available on %s: %w", mode, t.kinds["sql"], status.Err)
		}
		_, out := t.replica.Backends.Ready([]string{"redis", "sql"}, nil)
		if err == nil && status.Err == nil && out == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("mode %s is not available: %w", mode, errors.Join(err, status.Err, out))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ask sends the request and keeps the answer.
func (t *Tracer) ask(ctx context.Context, tr *Trace) (err error) {
	call := tr.ask.Call().InQuery()
	if tr.Hold != (stock.Hold{}) {
		call.Headers = [][2]string{{"Authorization", "Bearer " + t.token}}
	}
	tr.Status, tr.Answer, err = t.send(ctx, call)
	return err
}

// setStock begins a run: it also deletes the orders of the previous run.
func (t *Tracer) setStock(ctx context.Context, mode stock.Mode) error {
	shop := target.Shop{URL: t.url, Token: t.token, Client: &t.client}
	return shop.SetStock(ctx, product, mode.API().Setting(Stock))
}

// send sends a request to the replica and returns the status and the body of its answer.
func (t *Tracer) send(ctx context.Context, call target.Call) (int, string, error) {
	r, err := call.Send(ctx, &t.client, t.url)
	return r.Status, strings.TrimSpace(string(r.Body)), err
}

// calls returns the commands of the deduction without other traffic.
func (t *Tracer) calls(from, to time.Time) []wire.Call {
	return slices.DeleteFunc(t.recorder.Between(from, to), func(c wire.Call) bool { return background(c.Text) })
}

// background names the traffic that a replica sends without a request: the probes of its health checks, keep-alives of
// sessions, the first commands of a connection, and the observers' own commands.
func background(text string) bool {
	for _, prefix := range []string{
		"PING", "HELLO ", "AUTH ", "CLIENT ", "ECHO ", "SLOWLOG ", // Redis
		// SQL
		"SELECT 1 FROM product_stock WHERE id = 0", backend.Comment("health"), "SET NAMES ", "SET SESSION ", "SHOW SESSION ",
		"SELECT UNIX_TIMESTAMP(event_time)",
		"sync /", "setData /lastitem-health", // ZooKeeper
		"KV.Txn compare:<result:LESS key:", "/etcdserverpb.Lease/LeaseKeepAlive ", "PUT /v1/session/renew/",
	} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return strings.HasPrefix(text, "SET ") && strings.Contains(text, "health:{") ||
		strings.HasPrefix(text, "PUT /v1/kv/") && strings.Contains(text, "health?cas=")
}
