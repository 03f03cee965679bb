package main

import (
	"context"
	"crypto/sha1" // #nosec G505 -- Redis names its scripts by it
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/internal/backend"
	"lastitem/internal/localstack"
	"lastitem/internal/stock"
	"lastitem/internal/wire"
)

const (
	traceProduct = 101
	traceStock   = 100
	traceTimeout = 30 * time.Second
)

// deduction says what is traced.
type deduction struct {
	mode     stock.Mode
	store    stock.Store // "" for the baseline
	quantity int64
	key      string
}

// trace is one deduction, from the request to its answer.
type trace struct {
	deduction
	target string // of the request: path and query
	status int
	answer string
	took   time.Duration
	steps  []tracedStep
}

// tracedStep is one command, from both sides of the wire. Times count from the beginning of the request, or are unknown.
type tracedStep struct {
	server     string
	text       string
	pattern    string        // the position's name
	about      string        // what a script says of itself
	poll       bool          // stands where its answer came; it may have been sent before the request
	sent, took time.Duration // on the wire
	seen, ran  time.Duration // in the server
	inside     []tracedStep  // what a script did
}

// unknown is a time that nobody has told.
const unknown = time.Duration(math.MinInt64)

// at is where the step stands.
func (s tracedStep) at() time.Duration {
	if s.poll {
		return s.sent + s.took
	}
	return s.sent
}

// deduct sets the stock, deducts once so that connections are open and scripts are loaded, sets the stock again, and deducts
// once more, under observation.
func (t *tracer) deduct(ctx context.Context, d deduction) (trace, error) {
	ctx, cancel := context.WithTimeout(ctx, traceTimeout)
	defer cancel()
	tr := trace{deduction: d}
	query := url.Values{"product_id": {strconv.Itoa(traceProduct)}, "quantity": {strconv.FormatInt(d.quantity, 10)}}
	if d.store != "" {
		query.Set("store", string(d.store))
	}
	tr.target = "/deduct_stock/" + d.mode.Name + "?" + query.Encode()
	if err := t.prepare(ctx, tr); err != nil {
		return tr, err
	}
	for _, eye := range t.redises {
		if err := eye.forget(ctx); err != nil {
			return tr, err
		}
	}
	if t.sql != nil {
		if err := t.sql.forget(ctx); err != nil {
			return tr, err
		}
	}
	began := time.Now()
	if err := t.ask(ctx, &tr, d.key); err != nil {
		return tr, err
	}
	ended := time.Now()
	tr.took = ended.Sub(began)
	settled, err := t.settle(ctx, d.mode, began, ended)
	if err != nil {
		return tr, err
	}
	var views []seen
	for _, eye := range t.redises {
		view, err := eye.look(ctx)
		if err != nil {
			return tr, err
		}
		views = append(views, view...)
	}
	if t.sql != nil {
		view, err := t.sql.look(ctx, began, ended)
		if err != nil {
			return tr, err
		}
		views = append(views, view...)
	}
	tr.steps = join(t.calls(d.mode, began, settled), views, began)
	t.explain(tr.steps)
	return tr, nil
}

// prepare leads to the moment before the deduction, from empty stores.
func (t *tracer) prepare(ctx context.Context, tr trace) error {
	if t.shop.set.Client != nil {
		if err := t.shop.set.Client.FlushAll(ctx).Err(); err != nil {
			return err
		}
	}
	if err := t.shop.set.DB.WithContext(ctx).Exec("DELETE FROM product_stock").Error; err != nil {
		return err
	}
	if err := t.available(ctx, tr.mode.Name); err != nil {
		return err
	}
	if err := t.control.SetStock(ctx, traceProduct, traceStock, tr.mode.Segments); err != nil {
		return err
	}
	warm, began := tr, time.Now()
	if err := t.ask(ctx, &warm, tr.key+"-before"); err != nil {
		return err
	}
	if warm.status != http.StatusOK {
		return fmt.Errorf("%s answers %d %s", tr.target, warm.status, warm.answer)
	}
	if _, err := t.settle(ctx, tr.mode, began, time.Now()); err != nil {
		return err
	}
	if tr.mode.Segments > 0 && t.shop.set.Client != nil {
		// The segment is drawn: the counter of fences of the one that comes shall not be there by chance.
		if err := t.shop.set.Client.FlushAll(ctx).Err(); err != nil {
			return err
		}
	}
	return t.control.SetStock(ctx, traceProduct, traceStock, tr.mode.Segments)
}

// available waits until the backends of a mode have been asked and have answered.
func (t *tracer) available(ctx context.Context, mode string) error {
	for {
		status, err := t.shop.shop.Mode(mode)
		if slices.Contains(status.Mode.Needs, stock.NeedMySQL) && !t.shop.set.SQL.MySQL() {
			return fmt.Errorf("mode %s is not available on %s: %w", mode, t.kinds["sql"], status.Err)
		}
		if err == nil && status.Err == nil && t.shop.set.Ready() == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("mode %s is not available: %w", mode, errors.Join(err, status.Err, t.shop.set.Ready()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ask sends the request and keeps the answer.
func (t *tracer) ask(ctx context.Context, tr *trace, key string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+tr.target, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	tr.status, tr.answer = res.StatusCode, strings.TrimSpace(string(body))
	return err
}

// settle waits for the answers to what was sent during the request: the mode itself may not have waited for all of them. Where
// it sends something that its own answer does not wait for, settle waits for that too. It returns the end of it all.
func (t *tracer) settle(ctx context.Context, m stock.Mode, began, ended time.Time) (time.Time, error) {
	later := slices.Contains(m.Needs, stock.NeedKafka) || slices.Contains(m.Needs, stock.NeedRedlock)
	for {
		if later {
			ended = time.Now()
		}
		calls := t.recorder.Between(began, ended)
		open := slices.ContainsFunc(calls, func(c wire.Call) bool { return c.Answered.IsZero() })
		if !open && sentAll(m, calls) {
			return ended, nil
		}
		select {
		case <-ctx.Done():
			return ended, errors.New("a command of the request is not sent, or never answered")
		case <-time.After(time.Millisecond):
		}
	}
}

// sentAll says whether a mode has also sent what its answer does not wait for: the commit of an offset, and, once a Redlock has asked one
// node, the question to every other node and every release. The answer comes when a majority has granted the lock and released it.
func sentAll(m stock.Mode, calls []wire.Call) bool {
	if slices.Contains(m.Needs, stock.NeedKafka) && !slices.ContainsFunc(calls, func(c wire.Call) bool { return aside(c.Text) }) {
		return false
	}
	last := map[string]wire.Call{}
	for _, c := range calls {
		if strings.HasPrefix(c.Server, localstack.Redlock+" ") && !background(c.Text) {
			last[c.Server] = c
		}
	}
	if len(last) > 0 && len(last) < redlockNodes {
		return false // a node is still to be asked
	}
	for _, c := range last {
		if !strings.HasPrefix(c.Text, "EVAL") {
			return false // a node has its lock still
		}
	}
	return true
}

// aside names what a mode sends without waiting for it: at what moment is chance.
func aside(text string) bool { return strings.HasPrefix(text, "OffsetCommit ") }

// calls are the commands of the deduction, and nothing that goes on beside it: the mode kafka probes its consumers all the time.
func (t *tracer) calls(m stock.Mode, from, to time.Time) []wire.Call {
	kafka := slices.Contains(m.Needs, stock.NeedKafka)
	return slices.DeleteFunc(t.recorder.Between(from, to), func(c wire.Call) bool {
		return background(c.Text) || c.Server == string(stock.NeedKafka) && !kafka
	})
}

// background names what a replica sends without a request: the probes of its health checks, what keeps sessions alive, the first
// words of a connection, and our own looks at the servers.
func background(text string) bool {
	for _, prefix := range []string{
		"PING", "HELLO ", "AUTH ", "CLIENT ", "ECHO ", "SLOWLOG ", // Redis
		"SELECT 1 FROM product_stock WHERE id = 0", backend.Comment("health"), "SET NAMES ", "SELECT UNIX_TIMESTAMP(event_time)", // SQL
		"sync /", "setData /lastitem-health", // ZooKeeper
		"KV.Txn compare:<result:LESS key:", "/etcdserverpb.Lease/LeaseKeepAlive ", "PUT /v1/session/renew/",
	} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return strings.HasPrefix(text, "SET ") && strings.Contains(text, "health:{") || strings.HasPrefix(text, "PUT /v1/kv/") && strings.Contains(text, "health?cas=")
}

// join puts what passed the wires and what the servers saw side by side: the n-th of some text here is the n-th of that text
// there, and what a script did belongs to the call before.
func join(calls []wire.Call, views []seen, began time.Time) []tracedStep {
	steps := make([]tracedStep, 0, len(calls))
	for _, c := range calls {
		s := tracedStep{
			server: c.Server, text: c.Text, pattern: c.Pattern, poll: c.Poll, sent: c.Sent.Sub(began), took: unknown, seen: unknown, ran: unknown,
		}
		if !c.Answered.IsZero() {
			s.took = c.Answered.Sub(c.Sent)
		}
		steps = append(steps, s)
	}
	var owner *tracedStep
	for _, v := range views {
		switch {
		case v.script && owner != nil:
			owner.inside = append(owner.inside, tracedStep{
				server: v.server, text: v.text, sent: unknown, took: unknown, seen: v.at.Sub(began), ran: unknown,
			})
		case !v.script:
			owner = nil
			for i := range steps {
				s := &steps[i]
				if s.seen == unknown && s.server == v.server && likeness(s.text) == likeness(v.text) {
					s.seen, s.ran, owner = max(0, v.at.Sub(began)), v.ran, s
					break
				}
			}
		}
	}
	return steps
}

// scripts are what the scripts that were sent so far say of themselves, by the names that Redis gives them.
func (t *tracer) scripts() map[string]string {
	about := map[string]string{}
	for _, c := range t.recorder.Between(time.Time{}, time.Now()) {
		var text string
		switch {
		case len(c.Words) > 1 && strings.EqualFold(c.Words[0], "EVAL"):
			text = c.Words[1]
		case len(c.Words) > 2 && strings.EqualFold(c.Words[0], "SCRIPT") && strings.EqualFold(c.Words[1], "LOAD"):
			text = c.Words[2]
		default:
			continue
		}
		sum := sha1.Sum([]byte(text)) // #nosec G401 -- not ours to choose
		about[hex.EncodeToString(sum[:])] = firstSentence(text)
	}
	return about
}

// firstSentence is the comment that a script begins with: its first line, without a sentence that goes on in the next.
func firstSentence(script string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(script), "\n")
	if end := strings.LastIndex(line, "."); end >= 0 {
		line = line[:end+1]
	}
	return line
}

// explain adds to each script what it says of itself.
func (t *tracer) explain(steps []tracedStep) {
	about := t.scripts()
	for i := range steps {
		if words := strings.Fields(steps[i].text); len(words) > 1 && strings.EqualFold(words[0], "EVALSHA") {
			steps[i].about = about[words[1]]
		}
	}
}
