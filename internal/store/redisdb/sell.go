package redisdb

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/redisbatch"
	"lastitem/internal/store"
)

// sellForBuyer also keeps to the limits per buyer.
var sellScript, sellForBuyer = redis.NewScript(source("answers") + "local buyer, ticket\n" + source("sell")),
	redis.NewScript(source("answers") + "local buyer, ticket = table.remove(ARGV)\n" + source("sell"))

// winScript makes a ticket instead of an order: see tickets.go.
var winScript = redis.NewScript(source("answers") + `local buyer = table.remove(ARGV)
if buyer == '' then buyer = nil end
local confirm = table.remove(ARGV) == '1'
local ticket = {most = tonumber(table.remove(ARGV)), id = table.remove(ARGV), rules = table.remove(KEYS),
  hash = table.remove(KEYS), stream = table.remove(KEYS), confirm = confirm}
` + source("sell"))

// Sale is what [Store.Sell] does in one script.
type Sale struct {
	// Orders has one order for each product, no product twice; Redis fills in the remaining count.
	Orders []ledger.Order
	// Buyer is who the units are for; "" = not known, and no limit applies.
	Buyer string
	// Key is the idempotency key, nil = none, and Fingerprint tells its payload from others, 32 bytes.
	Key, Fingerprint []byte
	// Sold renders the answer of a sale, and Refused that of a refusal for the i-th order; called only with a Key.
	Sold    func() idempotency.Template
	Refused func(i int) idempotency.Template
	// Apart says that the ticket is sent later, by [Tickets.Send].
	Apart bool
	// tickets is how many tickets may be in flight, if the units are for one; 0 = they are for an order.
	tickets int
	// replicas must have the ticket before it is told.
	replicas int
}

// Sold is the outcome of a [Sale].
type Sold struct {
	// Short is the index of the first order with too little stock, and Available that stock; Short -1 = sold.
	Short     int
	Available int64
	// Remaining is the stock of the first product after the sale.
	Remaining int64
	// Answer is the answer stored under the key, nil without a key, and for a refusal that is not kept. Earlier says that
	// it was there before, and nothing was done.
	Answer      *idempotency.Answer
	Earlier     bool
	Fingerprint []byte // of the payload that the earlier answer is for
}

// sellTries is how often a sale with a key is sent at most if its answers are lost. It takes effect once.
const sellTries = 3

// Sell takes the units of all orders and appends these, or does nothing, in one script; with a key it keeps the answer,
// and returns the stored answer if there is one, even if it is for another product. The keys of different products must
// be in one slot of a cluster, else store.ErrCrossSlot.
func (r *Store) Sell(ctx context.Context, s Sale) (Sold, error) {
	t := selling{Sale: s, r: r, rendered: -1}
	if len(s.Orders) == 1 && len(s.Key) > 0 && r.refusing.Load() && s.tickets == 0 && t.keeps(ctx) {
		t.rendered = 0
	}
	if len(s.Key) > 0 {
		t.sold = s.Sold()
	}
	for {
		if err := ctx.Err(); err != nil && t.lost == 0 {
			return Sold{}, fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
		}
		out, again, err := t.try(ctx)
		if again {
			continue
		}
		r.note(out, err)
		return out, err
	}
}

// selling is a sale in progress.
type selling struct {
	Sale
	r    *Store
	sold idempotency.Template
	// the product whose refusal the script is given. Most sales need none, but after a refusal the next try likely does
	rendered int
	lost     int    // lost answers
	void     string // the owner whose claim of the key is void
	claimed  bool   // on a cluster: the key is claimed for this sale's product
	made     bool   // this sale made the claim, and took no other's place
	own      string // this sale's name in the claim
}

// try sends the script once. again says that it must be sent again.
func (t *selling) try(ctx context.Context) (out Sold, again bool, err error) {
	keyed := len(t.Key) > 0
	reach := !t.r.spread.Load() // the script reaches the claim too
	if keyed && !reach {
		if out, done, err := t.claim(ctx); done {
			return out, false, err
		}
	}
	args, refused := t.args()
	script, keys := sellScript, t.keys(reach)
	switch {
	case t.tickets > 0:
		id := t.Orders[0].ID
		if t.Apart {
			id = ""
		}
		script, keys, args = winScript, t.ticketKeys(keys), append(args, id, t.tickets,
			min(t.replicas, 1), t.Buyer)
	case t.Buyer != "":
		script, args = sellForBuyer, append(args, t.Buyer)
	}
	c := redisbatch.Call{Script: script, Keys: keys, Args: args, Replicas: t.replicas}
	t.r.scripts.Do(&c)
	reply, err := c.Reply, sellError(c.Err)
	if err != nil {
		if again, err = t.failed(err, keyed, reach); !again && t.made && !errors.Is(err, store.ErrUnknown) {
			t.unclaim()
		}
		return Sold{}, again, err
	}
	if list, ok := reply.([]any); ok && len(list) == 2 && list[0] == "claimed" {
		owner, _ := list[1].(string)
		return t.claimedFor(ctx, owner)
	}
	out, err = t.outcome(reply, t.sold, refused)
	if err == nil && out.Short < 0 && c.Acked < t.replicas { // asking again would wait as long again
		return Sold{}, false, fmt.Errorf("%w: redis: %d of %d replicas have the ticket", store.ErrUnknown, c.Acked,
			t.replicas)
	}
	if err == nil && out.Short >= 0 && keyed && out.Answer == nil && t.tickets == 0 && t.keeps(ctx) {
		// store the refusal before answering it. While counts only fall, the same product stays short, or an earlier one
		// becomes so
		t.rendered = out.Short
		return out, true, nil
	}
	if unsold := out.Short >= 0 || out.Earlier && out.Answer.Status/100 != 2; t.claimed && (err != nil || unsold) {
		t.unclaim()
	}
	return out, false, err
}

// keeps says whether the refusal of this sale would be stored.
func (t *selling) keeps(ctx context.Context) bool {
	return t.r.rooms.keepsRefusals(ctx, t.r.c, t.r.key("refusals", t.Orders[0].ProductID))
}

// failed says whether to try again after an error, and what the error is if not.
func (t *selling) failed(err error, keyed, reach bool) (again bool, _ error) {
	switch unknown := errors.Is(err, store.ErrUnknown); {
	case keyed && reach && errors.Is(err, store.ErrCrossSlot): // a cluster: the claim or the products are in other slots
		t.r.spread.Store(true)
		return true, nil
	case unknown && keyed && t.lost+1 < sellTries:
		t.lost++
		return true, nil
	case !unknown && t.lost > 0: // this try did not arrive or was refused; the one before may have been executed
		err = fmt.Errorf("%w: an answer was lost, and then: %w", store.ErrUnknown, err)
	}
	return false, err
}

// note remembers whether this process sells or refuses.
func (r *Store) note(out Sold, err error) {
	if refusing := out.Short >= 0; err == nil && !out.Earlier && r.refusing.Load() != refusing {
		r.refusing.Store(refusing)
	}
}

// keys are the script's KEYS. reach says whether the claim of the idempotency key is among them.
func (t *selling) keys(reach bool) []string {
	keys := make([]string, 0, 3*len(t.Orders)+5)
	if len(t.Key) > 0 {
		keys = append(keys, t.r.answerKeys(t.Orders[0].ProductID)...)
	}
	for _, o := range t.Orders {
		keys = append(keys, t.r.key("orders", o.ProductID))
	}
	if t.Buyer != "" {
		for _, o := range t.Orders {
			keys = append(keys, t.r.key("buyers", o.ProductID))
		}
	}
	keys = t.stocks(keys)
	if len(t.Key) > 0 && reach {
		keys = append(keys, t.r.claimKey(t.Key))
	}
	return keys
}

// ticketKeys appends what a ticket needs beside the keys of a sale.
func (t *selling) ticketKeys(keys []string) []string {
	product := t.Orders[0].ProductID
	return append(keys, t.r.key("stream", product), t.r.key("tickets", product), t.r.key("rules", product))
}

// stocks appends the keys of the counts.
func (t *selling) stocks(keys []string) []string {
	for _, o := range t.Orders {
		keys = append(keys, t.r.key("stock", o.ProductID))
	}
	return keys
}

// args are the script's ARGV, including the rendered refusal, if there is one.
func (t *selling) args() (args []any, refused idempotency.Template) {
	size := 3*len(t.Orders) + 1
	if len(t.Key) > 0 {
		size += 2*len(t.sold.Pieces) + 8
	}
	args = append(make([]any, 0, size), t.Key)
	for i := range t.Orders {
		head, tail := halves(&t.Orders[i])
		args = append(args, t.Orders[i].Quantity, head, tail)
	}
	if len(t.Key) == 0 {
		return args, refused
	}
	args = append(args, t.owner(t.Orders[0].ID), t.void, t.r.keep.Milliseconds())
	args = t.answer(args, t.sold)
	args = append(args, t.rendered+1)
	if t.rendered >= 0 {
		refused = t.Refused(t.rendered)
		args = t.answer(args, refused)
	}
	return args, refused
}

// answer appends the stored parts of an answer: fingerprint, status, body.
func (s Sale) answer(args []any, t idempotency.Template) []any {
	args = append(args, len(t.Pieces), string(s.Fingerprint)+statusText(t.Status)+t.Pieces[0])
	for _, p := range t.Pieces[1:] {
		args = append(args, p)
	}
	return args
}

// statusText formats a status as three digits.
func statusText(status int) string { return fmt.Sprintf("%03d", status) }

// outcome reads the script's reply.
func (s Sale) outcome(reply any, sold, refused idempotency.Template) (Sold, error) {
	switch v := reply.(type) {
	case int64:
		out := Sold{Short: -1, Remaining: v}
		if len(s.Key) > 0 {
			out.Answer = new(sold.Fill(v))
		}
		return out, nil
	case string:
		return earlier(v)
	case []any:
		return s.refusal(v, refused)
	}
	return Sold{}, fmt.Errorf("%w: redis: the script answered %v", store.ErrUnknown, reply)
}

// earlier decodes a stored answer.
func earlier(kept string) (Sold, error) {
	const fingerprint, status = 32, 3
	if len(kept) < fingerprint+status {
		return Sold{}, fmt.Errorf("%w: redis: an answer of %d bytes", store.ErrUnavailable, len(kept))
	}
	code, err := strconv.Atoi(kept[fingerprint : fingerprint+status])
	if err != nil {
		return Sold{}, fmt.Errorf("%w: redis: the status of an answer: %w", store.ErrUnavailable, err)
	}
	return Sold{
		Short: -1, Earlier: true, Fingerprint: []byte(kept[:fingerprint]),
		Answer: &idempotency.Answer{Status: code, Body: []byte(kept[fingerprint+status:])},
	}, nil
}

func (s Sale) refusal(v []any, refused idempotency.Template) (Sold, error) {
	var why string
	var i, count int64
	if len(v) > 1 {
		why, _ = v[0].(string)
		i, _ = v[1].(int64)
	}
	if len(v) > 2 {
		count, _ = v[2].(int64)
	}
	if i < 1 || int(i) > len(s.Orders) {
		return Sold{}, fmt.Errorf("%w: redis: the script answered %v", store.ErrUnknown, v)
	}
	switch why {
	case "unknown":
		return Sold{}, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: s.Orders[i-1].ProductID}
	case "segmented":
		return Sold{}, &ledger.ProductError{Err: store.ErrSegmented, ProductID: s.Orders[i-1].ProductID}
	case "other":
		return Sold{}, &ledger.ProductError{Err: store.ErrReservationUnsupported, ProductID: s.Orders[i-1].ProductID}
	case "full":
		return Sold{}, fmt.Errorf("%w: %d tickets of product %d are in flight", store.ErrQueueFull, count,
			s.Orders[i-1].ProductID)
	case "limit":
		return Sold{}, &ledger.ShortError{Err: store.ErrLimit, ProductID: s.Orders[i-1].ProductID,
			Requested: s.Orders[i-1].Quantity, Available: count}
	}
	out := Sold{Short: int(i - 1), Available: count}
	if why == "kept" {
		out.Answer = new(refused.Fill(count))
	}
	return out, nil
}

// halves returns an order as JSON, cut where the remaining count goes. The result equals that of [json.Marshal], in a
// tenth of the time.
func halves(o *ledger.Order) (head, tail []byte) {
	b := make([]byte, 0, 192)
	b = append(b, `{"id":`...)
	b = quote(b, o.ID)
	b = append(b, `,"product_id":`...)
	b = strconv.AppendInt(b, o.ProductID, 10)
	b = append(b, `,"quantity":`...)
	b = strconv.AppendInt(b, o.Quantity, 10)
	b = append(b, `,"remaining":`...)
	cut := len(b)
	b = append(b, `,"mode":`...)
	b = quote(b, o.Mode)
	b = append(b, `,"replica":`...)
	b = quote(b, o.Replica)
	if len(o.Key) > 0 {
		b = append(b, `,"key":"`...)
		b = base64.StdEncoding.AppendEncode(b, o.Key)
		b = append(b, '"')
	}
	if o.Fence > 0 {
		b = append(b, `,"fence":`...)
		b = strconv.AppendUint(b, o.Fence, 10)
	}
	b = append(b, `,"created_us":`...)
	b = strconv.AppendInt(b, o.CreatedMicros, 10)
	if o.Buyer != "" {
		b = quote(append(b, `,"buyer":`...), o.Buyer)
	}
	b = append(b, '}')
	return b[:cut], b[cut:]
}

// quote appends a JSON string.
func quote(b []byte, s string) []byte {
	special := func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }
	if strings.IndexFunc(s, special) < 0 {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	text, _ := json.Marshal(s) // a string always encodes
	return append(b, text...)
}
