package redisdb

import (
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/contract/ledger"
	"lastitem/internal/idempotency"
	"lastitem/internal/store"
)

// A reservation in Redis is a field of a hash in its product's slot. Each arrow of its life is one script, so nothing
// is ever half done, and the clock is the script's TIME. The keys:
//
//	holds:{101}         by id: the reservation, JSON
//	due:{101}           those that are held, by deadline
//	closed:{101}        those that are not, by when they may be deleted
//	payments:{101}      by payment: reservation, order ("" = refunded), time; of all runs, forever
//	run-payments:{101}  those of the run, for the judge
//	buyers:{101}        by buyer: the units that count for the limit
//	hold-keys:{101}     by key: the reservation that it made
//	returned:{101}      by order: quantity, and whether it was restocked
//	rules:{101}         run, limit per buyer, late payments, and the number of changes
//	holds-old:{101}     holds of the run before, for a week: those that were held are void
//	payment:<payment>   the claim of a payment, forever: it is for a reservation of this product, or "refunded" if there
//	                    was no such reservation; hold-key:<key> likewise, for a week
//	holding             the products that may have reservations, for the sweeper

// holdFamilies are the KEYS of the scripts hold_*.lua, and runFamilies those of set.lua after the counts.
var (
	holdFamilies = []string{"stock", "orders", "rules", "holds", "due", "payments", "buyers", "run-payments", "hold-keys",
		"returned", "closed", "holds-old"}
	runFamilies = []string{"rules", "holds", "holds-old", "orders", "due", "buyers", "run-payments", "hold-keys",
		"returned", "closed"}
)

//go:embed lua/hold*.lua
var holdSources embed.FS

// holdScript returns the script of an arrow.
func holdScript(arrow string) *redis.Script {
	var text []byte
	for _, name := range []string{"hold", "hold_" + arrow} {
		part, err := holdSources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // the program was built without it
		}
		text = append(text, part...)
	}
	return redis.NewScript(string(text))
}

var makeScript, confirmScript, cancelScript, extendScript, readScript, sweepScript, returnScript = holdScript("make"),
	holdScript("confirm"), holdScript("cancel"), holdScript("extend"), holdScript("read"), holdScript("sweep"),
	holdScript("return")

// week is how long a key belongs to the product that it first came for, and how long closed reservations are kept
// unless KeepReservations says otherwise.
const week = 7 * 24 * time.Hour

// KeepReservations sets for how long a closed reservation is kept if it has a payment or a key, or if a late payment
// may still become an order, instead of a week; others are kept for one hour, and those with an order as long as that.
// 0 = all are kept until the stock is set. Call it before the first reservation.
func (r *Store) KeepReservations(d time.Duration) { r.closed = d }

// keptReservation is a reservation as Redis has it.
type keptReservation struct {
	State    ledger.ReservationState `json:"state"`
	Expires  int64                   `json:"expires_us,string"`
	Extended int64                   `json:"extended_us,string"`
	Changed  int64                   `json:"changed_us,string"`
	OrderID  string                  `json:"order_id"`
	Events   string                  `json:"events"` // a line each: was, now, deadline, time, replica
	Late     string                  `json:"late"`
	Run      int64                   `json:"run,string"`
	Left     int64                   `json:"left,string"` // in stock, after the hold
	Created  int64                   `json:"created_us,string"`
	fixedReservation
}

// fixedReservation is the part of it that the process makes which holds.
type fixedReservation struct {
	Quantity    int64            `json:"quantity,string"`
	Key         []byte           `json:"key"`
	Fingerprint []byte           `json:"fingerprint,omitempty"`
	Replica     string           `json:"replica"`
	Order       reservationOrder `json:"order"`
}

// reservationOrder is what an order has from its reservation. The buyer comes last; see hold.lua.
type reservationOrder struct {
	ProductID     int64  `json:"product_id"`
	Quantity      int64  `json:"quantity"`
	Mode          string `json:"mode"`
	ReservationID string `json:"reservation_id"`
	Buyer         string `json:"buyer,omitempty"`
}

func decodeReservation(id, text string) (k keptReservation, h ledger.Reservation, err error) {
	product, err := holdProductOf(id)
	if err == nil {
		err = json.Unmarshal([]byte(text), &k)
	}
	if err != nil {
		return k, h, fmt.Errorf("%w: redis: reservation %s: %w", store.ErrUnavailable, id, err)
	}
	return k, ledger.Reservation{
		ID: id, Key: k.Key, Fingerprint: k.Fingerprint, Mode: k.Order.Mode, Replica: k.Replica, Buyer: k.Order.Buyer,
		State: k.State, Late: k.Late, ExpiresMicros: k.Expires, ExtendedMicros: k.Extended, CreatedMicros: k.Created,
		ChangedMicros: k.Changed,
		Items:         []ledger.ReservationItem{{ProductID: product, Quantity: k.Quantity, Run: k.Run, OrderID: k.OrderID}},
	}, nil
}

// holdProductOf returns the product of a reservation, which its id names: redis-101-<uuid>.
func holdProductOf(id string) (int64, error) {
	rest, ok := strings.CutPrefix(id, "redis-")
	digits, _, more := strings.Cut(rest, "-")
	product, err := strconv.ParseInt(digits, 10, 64)
	if !ok || !more || err != nil {
		return 0, store.ErrNoReservation
	}
	return product, nil
}

// arrow runs one of the scripts hold_*.lua. A lost answer is asked for again: each script knows what it has done.
func (r *Store) arrow(ctx context.Context, script *redis.Script, keys []string, args ...any) ([]any, error) {
	args = append(args, r.closed.Microseconds())
	for lost := 0; ; lost++ {
		if err := ctx.Err(); err != nil && lost == 0 {
			return nil, fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
		}
		reply, err := r.eval(script, keys, args)
		list, ok := reply.([]any)
		switch err = sellError(err); {
		case err == nil && ok && len(list) > 0:
			return list, nil
		case err == nil:
			return nil, fmt.Errorf("%w: redis: the script answered %v", store.ErrUnknown, reply)
		case errors.Is(err, store.ErrUnknown) && lost+1 < sellTries:
			continue
		case lost > 0 && !errors.Is(err, store.ErrUnknown): // this try did not arrive; the one before may have been executed
			err = fmt.Errorf("%w: an answer was lost, and then: %w", store.ErrUnknown, err)
		}
		return nil, err
	}
}

func (r *Store) holdKeys(product int64) []string {
	keys := make([]string, len(holdFamilies), len(holdFamilies)+1)
	for i, family := range holdFamilies {
		keys[i] = r.key(family, product)
	}
	return keys
}

// holdClaim is the claim of a payment or of a key by a product: no other product's slot may use it too.
type holdClaim struct {
	family, field string // of the hash in which the product that uses it has it
	product       int64
	void          string // the owner whose claim is void
	reused        error  // what a use by another product is
}

// claimed runs a script that claims: together with the rest, or on a cluster before it, where the claim is in another
// slot.
func (r *Store) claimed(ctx context.Context, script *redis.Script, c holdClaim, args ...any) ([]any, error) {
	name := []string{r.prefix + strings.TrimSuffix(c.family, "s") + ":" + c.field}
	keep := week
	if c.family == "payments" {
		keep = 0 // a payment has one end, whatever was set since
	}
	for {
		keys, own, owner := r.holdKeys(c.product), fmt.Sprint(c.product, "@"), ""
		together := !r.spread.Load()
		if together {
			keys = append(keys, name...)
		} else {
			own += strconv.FormatInt(time.Now().UnixMilli(), 10) // it tells how long a request may be in flight
			reply, err := r.eval(claimScript, name, []any{own, c.void, keep.Milliseconds(), refusedClaim.Milliseconds()})
			if err != nil { // the claim may have been made, but nothing else
				return nil, fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
			}
			owner, _ = reply.(string)
		}
		if product, _ := parseOwner(owner); together || product == c.product {
			list, err := r.arrow(ctx, script, keys, append(args, own, c.void, keep.Milliseconds())...)
			switch {
			case together && errors.Is(err, store.ErrCrossSlot):
				r.spread.Store(true)
				continue
			case err != nil:
				return nil, err
			case list[0] != "claimed":
				if owner == own && list[0] == "none" {
					return list, writeError(r.c.Set(ctx, name[0], refundedClaim, keep).Err())
				}
				if owner == own && !slices.Contains([]any{"made", "held", "earlier", "done", "replay"}, list[0]) {
					_, _ = r.eval(unclaimScript, name, []any{own, refusedClaim.Milliseconds()})
				}
				return list, nil
			}
			owner = textAt(list, 1)
		}
		if err := r.heldBy(ctx, c, owner); err != nil {
			return nil, err
		}
		c.void = owner
	}
}

// refundedClaim owns a payment for a reservation that did not exist: the payment goes back, and never becomes an order.
const refundedClaim = "refunded"

var errRefunded = errors.New("store: the payment was for a reservation that did not exist")

// heldBy says whether a claim of another product stands: nil = it is void.
func (r *Store) heldBy(ctx context.Context, c holdClaim, owner string) error {
	if owner == refundedClaim {
		return errRefunded
	}
	product, made := parseOwner(owner)
	pipe := r.c.Pipeline()
	present := pipe.HExists(ctx, r.key(c.family, product), c.field)
	_, err := pipe.Exec(ctx)
	held := time.Since(made)
	switch {
	case err != nil:
		return readError(err, product)
	case present.Val():
		return c.reused
	case held < claimGrace:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, &KeyBusyError{Product: product, Held: held,
			Left: claimGrace - held})
	}
	return nil
}

// textAt returns a part of a reply, "" if there is none.
func textAt(list []any, i int) string {
	if i >= len(list) {
		return ""
	}
	s, _ := list[i].(string)
	return s
}

// Reserve holds the units of h for the given time, and returns it with its run, times and rules, and the stock that it
// left. Its id is "redis-<product>-<uuid>". If its key has made a reservation with the same fingerprint, that one is
// returned as it was then, earlier is set, and nothing was done; one with another fingerprint is
// [idempotency.ErrKeyReused]. More than one product is [store.ErrCrossSlot].
func (r *Store) Reserve(ctx context.Context, h ledger.Reservation, hold time.Duration) (made ledger.Reservation,
	remaining int64,
	earlier bool, err error) {
	if len(h.Items) != 1 {
		return h, 0, false, fmt.Errorf("%w: a reservation in Redis holds one product", store.ErrCrossSlot)
	}
	item := h.Items[0]
	if product, err := holdProductOf(h.ID); err != nil || product != item.ProductID {
		return h, 0, false, fmt.Errorf("%w: %q is no id of product %d", store.ErrUnavailable, h.ID, item.ProductID)
	}
	if err := r.announce(ctx, item.ProductID); err != nil {
		return h, 0, false, err
	}
	key := base64.StdEncoding.EncodeToString(h.Key)
	args := []any{h.ID, fixed(h, key), hold.Microseconds(), escaped(h.Replica), key, item.Quantity, h.Buyer}
	var list []any
	if key == "" {
		list, err = r.arrow(ctx, makeScript, r.holdKeys(item.ProductID), args...)
	} else {
		list, err = r.claimed(ctx, makeScript, holdClaim{family: "hold-keys", field: key,
			product: item.ProductID, reused: idempotency.ErrKeyReused}, args...)
	}
	if err != nil {
		return h, 0, false, err
	}
	return madeReservation(h, list)
}

func madeReservation(h ledger.Reservation, list []any) (made ledger.Reservation, left int64, earlier bool, err error) {
	item := h.Items[0]
	switch list[0] {
	case "made":
		err := errors.Join(integer(list, 1, &h.CreatedMicros), integer(list, 2, &h.ExpiresMicros),
			integer(list, 3, &item.Run), integer(list, 5, &left))
		h.State, h.Late, h.ChangedMicros, h.Items = ledger.Held, textAt(list, 4), h.CreatedMicros,
			[]ledger.ReservationItem{item}
		return h, left, false, err
	case "held", "earlier":
		k, made, err := decodeReservation(textAt(list, 1), textAt(list, 2))
		if err == nil && !bytes.Equal(made.Fingerprint, h.Fingerprint) {
			err = idempotency.ErrKeyReused
		}
		if err != nil {
			return made, 0, false, err
		}
		first, err := reservationEvents(made.ID, k.Events)
		if err != nil {
			return made, 0, false, err
		}
		made.State, made.ExpiresMicros, made.ExtendedMicros = ledger.Held, first[0].DeadlineMicros, 0
		made.ChangedMicros, made.Items[0].OrderID = made.CreatedMicros, ""
		return made, k.Left, list[0] == "earlier", nil
	case "unknown":
		return h, 0, false, &ledger.ProductError{Err: store.ErrUnknownProduct, ProductID: item.ProductID}
	case "segmented":
		return h, 0, false, &ledger.ProductError{Err: store.ErrReservationUnsupported, ProductID: item.ProductID}
	}
	refused := &ledger.ShortError{Err: store.ErrShort, ProductID: item.ProductID, Requested: item.Quantity}
	refused.Available, _ = strconv.ParseInt(textAt(list, 1), 10, 64)
	if list[0] == "limit" {
		refused.Err = store.ErrLimit
	}
	return h, 0, false, refused
}

// fixed renders a fixedReservation, as the end of a keptReservation.
func fixed(h ledger.Reservation, key string) []byte {
	item := h.Items[0]
	b := strconv.AppendInt([]byte(`,"quantity":"`), item.Quantity, 10)
	b = append(append(append(b, `","key":"`...), key...), `","fingerprint":"`...)
	b = append(base64.StdEncoding.AppendEncode(b, h.Fingerprint), `","replica":`...)
	b = append(quote(b, h.Replica), `,"order":{"product_id":`...)
	b = strconv.AppendInt(b, item.ProductID, 10)
	b = strconv.AppendInt(append(b, `,"quantity":`...), item.Quantity, 10)
	b = quote(append(b, `,"mode":`...), h.Mode)
	b = quote(append(b, `,"reservation_id":`...), h.ID)
	if h.Buyer != "" {
		b = quote(append(b, `,"buyer":`...), h.Buyer)
	}
	return append(b, "}}"...)
}

// escaped renders a name as the inside of a JSON string without a quotation mark.
func escaped(name string) string {
	b := quote(nil, name)
	return strings.ReplaceAll(string(b[1:len(b)-1]), `\"`, `\u0022`)
}

func integer(list []any, i int, to *int64) (err error) {
	*to, err = strconv.ParseInt(textAt(list, i), 10, 64)
	return err
}

// Confirm is like that of sqldb.
func (r *Store) Confirm(ctx context.Context, id, replica, order string, payment []byte) (ledger.Ended, error) {
	product, err := holdProductOf(id)
	if err != nil {
		return ledger.Ended{}, err
	}
	tail := quote([]byte(`,"replica":`), replica)
	tail = base64.StdEncoding.AppendEncode(append(tail, `,"key":"`...), payment)
	tail = append(tail, `","created_us":`...)
	list, err := r.claimed(ctx, confirmScript, holdClaim{family: "payments", field: string(payment),
		product: product, reused: store.ErrPaymentReused},
		id, escaped(replica), payment, order, quote([]byte(`{"id":`), order), tail)
	if errors.Is(err, errRefunded) {
		if _, err = r.ReadReservation(ctx, id, replica); err == nil {
			err = store.ErrPaymentReused
		}
	}
	if err != nil {
		return ledger.Ended{}, err
	}
	e := ledger.Ended{OrderID: textAt(list, 2)}
	if list[0] == "reused" {
		return e, store.ErrPaymentReused
	}
	e.Refund, e.Replay = e.OrderID == "", list[0] == "replay" && e.OrderID != order
	if list[0] == "replay" && textAt(list, 1) == "" { // the payment has outlived its reservation
		e.Reservation = ledger.Reservation{ID: id, State: ledger.Confirmed}
		if e.Refund {
			return e, store.ErrNoReservation
		}
		return e, nil
	}
	if e.Reservation, err = r.endedReservation(id, list, 3); err == nil && list[0] == "replay" && !e.Replay {
		r.Tell(e.Reservation, ledger.Held) // the first answer was lost
	}
	return e, err
}

// Cancel is like that of sqldb.
func (r *Store) Cancel(ctx context.Context, id, replica string) (ledger.Ended, error) {
	h, err := r.end(ctx, cancelScript, id, escaped(replica))
	return ledger.Ended{Reservation: h}, err
}

// Extend is like that of sqldb.
func (r *Store) Extend(ctx context.Context, id, replica string, hold time.Duration) (ledger.Ended, error) {
	h, err := r.end(ctx, extendScript, id, escaped(replica), hold.Microseconds())
	return ledger.Ended{Reservation: h}, err
}

// ReadReservation is like that of sqldb; a held one of an earlier run is told as void.
func (r *Store) ReadReservation(ctx context.Context, id, replica string) (ledger.Reservation, error) {
	return r.end(ctx, readScript, id, escaped(replica))
}

func (r *Store) end(ctx context.Context, script *redis.Script, id string, args ...any) (ledger.Reservation, error) {
	product, err := holdProductOf(id)
	if err != nil {
		return ledger.Reservation{}, err
	}
	list, err := r.arrow(ctx, script, r.holdKeys(product), append([]any{id}, args...)...)
	if err != nil {
		return ledger.Reservation{}, err
	}
	return r.endedReservation(id, list, 2)
}

// endedReservation reads the answer of a script; its state before is at was, if the script may have ended it.
func (r *Store) endedReservation(id string, list []any, was int) (ledger.Reservation, error) {
	if list[0] == "none" {
		return ledger.Reservation{}, store.ErrNoReservation
	}
	_, h, err := decodeReservation(id, textAt(list, 1))
	if before := textAt(list, was); err == nil && before != "" {
		r.Tell(h, ledger.ReservationState(before))
	}
	return h, err
}
