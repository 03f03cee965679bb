package reservationtest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/internal/store"
	"lastitem/judge"
	"lastitem/testkit"
)

// The replicas that make reservations and change them. A name may have a space.
const maker, changer = "r 1", "r 2"

// Player says sentences about a product. Several goroutines may say them at once.
type Player struct {
	testing.TB
	Seam
	Product int64
	Space   string // payments and keys, which outlive a run, have it before their names

	mu          sync.Mutex
	ids, orders map[string]string    // by name
	sold        []api.ReservationRow // by sales of this run
}

// New is a player who has said nothing yet.
func New(t testing.TB, s Seam, product int64) *Player {
	return &Player{TB: t, Seam: s, Product: product, ids: map[string]string{}, orders: map[string]string{}}
}

// Begin sets the stock to five: a new run begins.
func (p *Player) Begin(rules ledger.Rules) error {
	p.sold = nil
	return p.Reset(p.Context(), p.Product, 5, rules)
}

// Play says sentences, "sentence = what must come of it; ...", and looks at the books after each.
func (p *Player) Play(sentences string) {
	p.Helper()
	p.each(sentences, func(sentence string) { p.Sound(sentence) })
}

// Say is Play without a look at the books.
func (p *Player) Say(sentences string) {
	p.Helper()
	p.each(sentences, func(string) {})
}

func (p *Player) each(sentences string, then func(sentence string)) {
	p.Helper()
	for _, line := range strings.FieldsFunc(sentences, func(r rune) bool { return r == ';' || r == '\n' }) {
		sentence, want, _ := strings.Cut(line, "=")
		sentence = strings.TrimSpace(sentence)
		got := p.Do(sentence)
		if strings.Contains(got, "?") { // how many are left, which the books must say
			got = strings.Replace(got, "?", fmt.Sprint(p.book().Stock), 1)
		}
		testkit.Is(p.TB, got, strings.TrimSpace(want), "%s", sentence)
		then(sentence)
	}
}

// Do says a sentence, and returns what came of it.
func (p *Player) Do(sentence string) (said string) {
	p.Helper()
	err := store.Retry(p.Context(), testkit.Most, func(int) (err error) {
		said, err = p.try(append(strings.Fields(sentence), "", ""))
		return err
	})
	if err != nil {
		return refusal(err)
	}
	return strings.Join(strings.Fields(said), " ")
}

// try makes one attempt at a sentence of verb, name and more.
func (p *Player) try(words []string) (said string, err error) {
	ctx, verb, name, more := p.Context(), words[0], words[1], words[2]
	units, _ := strconv.ParseInt(more, 10, 64)
	var e ledger.Ended
	switch verb {
	case "hold", "again":
		return p.reserve(name, units, time.Minute)
	case "brief", "brief-again":
		return p.reserve(name, units, p.Brief)
	case "confirm":
		e, err = p.Confirm(ctx, p.ID(name), changer, uuid.NewString(), p.key(more))
		return fmt.Sprint(e.Reservation.State, " ", p.paid(more, e)), err
	case "cancel":
		e, err = p.Cancel(ctx, p.ID(name), changer)
		return string(e.Reservation.State), err
	case "extend":
		hold, _ := time.ParseDuration(more)
		e, err = p.Extend(ctx, p.ID(name), changer, hold)
		return string(e.Reservation.State) + p.extended(e.Reservation), err
	case "read":
		e.Reservation, err = p.ReadReservation(ctx, p.ID(name), changer)
		return string(e.Reservation.State), err
	case "late":
		testkit.Until(p.TB, name+" is overdue", func() bool {
			book := p.book()
			return book.AsOfMicros >= rowOf(book, p.ID(name)).ExpiresMicros
		})
		return "", nil
	case "sweep":
		n, err := p.Sweep(ctx, p.Product)
		return fmt.Sprint(n), err
	case "restock", "write-off":
		return p.giveBack(cmp.Or(p.orders[name], uuid.NewString()), verb == "restock")
	case "sell", "overwrite":
		return p.sell(map[string]seller{"sell": p.Sell, "overwrite": p.Overwrite}[verb], name, units)
	case "reset":
		return "", p.Begin(ledger.Rules{})
	}
	return "", fmt.Errorf("no verb %q", verb)
}

// ID is that of a reservation, or one that nobody has.
func (p *Player) ID(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.ids[name], p.newID())
}

func (p *Player) newID() string { return fmt.Sprint(p.Store, "-", p.Product, "-", uuid.New()) }

func (p *Player) key(name string) []byte { return []byte(p.Key + p.Space + name) }

// Wants is a reservation that nobody has made yet.
func (p *Player) Wants(name string, units int64) ledger.Reservation {
	r := ledger.Reservation{ID: p.newID(), Mode: "m", Replica: maker,
		Items: []ledger.ReservationItem{{ProductID: p.Product, Quantity: units}}}
	if !strings.Contains(name, "-") {
		r.Key, r.Fingerprint = p.key(name), fmt.Append(nil, name, units)
	}
	r.Buyer, _, _ = strings.Cut(name, "/")
	return r
}

func (p *Player) reserve(name string, units int64, hold time.Duration) (string, error) {
	made, left, earlier, err := p.Reserve(p.Context(), p.Wants(name, units), hold)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if earlier && p.ids[name] != made.ID {
		return "another reservation", nil
	}
	p.ids[name] = made.ID
	return fmt.Sprint(made.State, " ", number(left), map[bool]string{true: " earlier"}[earlier]), nil
}

func number(left *int64) string {
	if left == nil {
		return "?"
	}
	return fmt.Sprint(*left)
}

// paid tells the one end of a payment.
func (p *Player) paid(payment string, e ledger.Ended) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := "o" + payment
	switch first := p.orders[name]; {
	case e.Refund && e.OrderID == "":
		return "refund"
	case first != "" && first != e.OrderID:
		return "another order than " + name
	}
	p.orders[name] = e.OrderID
	return name + map[bool]string{true: " replay"}[e.Replay]
}

// extended says by how much, to the nearest minute, a reservation was extended, if it is held.
func (p *Player) extended(r ledger.Reservation) string {
	if r.State != ledger.Held {
		return ""
	}
	row := rowOf(p.book(), r.ID)
	if row.ExpiresMicros != r.ExpiresMicros {
		return " until another time than in the books"
	}
	return " by " + (time.Duration(row.ExpiresMicros-row.ExtendedMicros) * time.Microsecond).Round(time.Minute).String()
}

func (p *Player) book() *api.Reservations {
	book, err := p.Book(p.Context(), p.Product)
	testkit.Check(p.TB, err)
	return book
}

func rowOf(book *api.Reservations, id string) (row api.ReservationRow) {
	if i := slices.IndexFunc(book.Rows, func(r api.ReservationRow) bool { return r.ReservationID == id }); i >= 0 {
		row = book.Rows[i]
	}
	return row
}

func (p *Player) giveBack(order string, restock bool) (string, error) {
	units, restocked, err := p.Return(p.Context(), p.Product, order, restock)
	for _, row := range p.sold {
		if o := &row.Orders[0]; o.OrderID == order && err == nil {
			o.Returned, o.Restocked = true, restocked
		}
	}
	return fmt.Sprint(units, restocked), err
}

// sell sells without a reservation. For the judge it is one that was confirmed: only then do his sums agree.
func (p *Player) sell(sell seller, name string, units int64) (string, error) {
	buyer, _, _ := strings.Cut(name, "/")
	o, err := sell(p.Context(), ledger.Order{ID: uuid.NewString(), ProductID: p.Product, Quantity: units, Mode: "m",
		Replica: maker, Key: p.key(name), Buyer: buyer, CreatedMicros: time.Now().UnixMicro()})
	if err != nil {
		return "", err
	}
	const held, confirmed = string(ledger.Held), string(ledger.Confirmed)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders[name] = o.ID
	p.sold = append(p.sold, api.ReservationRow{ReservationID: o.ID, Buyer: o.Buyer, State: confirmed, Quantity: units,
		Orders:   []api.ReservationOrder{{OrderID: o.ID, Payment: o.ID, Buyer: o.Buyer, Quantity: units}},
		Events:   []api.ReservationEvent{{Now: held, DeadlineMicros: 1}, {Was: held, Now: confirmed}},
		Payments: []api.ReservationPaid{{Payment: o.ID, OrderID: o.ID}}})
	return "sold " + number(o.Remaining), nil
}

// Sound reads the books, and asks the judge whether they are right. Of what is overdue he is asked as of the moment
// before.
func (p *Player) Sound(when string) *api.Reservations {
	p.Helper()
	book := p.book()
	asked, overdue := *book, int64(0)
	asked.Rows = append(slices.Clone(book.Rows), p.sold...)
	for _, row := range book.Rows {
		if row.State == string(ledger.Held) && book.AsOfMicros >= row.ExpiresMicros {
			overdue += row.Quantity
			asked.AsOfMicros = min(asked.AsOfMicros, row.ExpiresMicros-1)
		}
	}
	held, ordered, gone := asked.Count()
	testkit.Is(p.TB, [4]int64{book.Held, book.Ordered, book.WrittenOff, book.Overdue},
		[4]int64{held, ordered, gone, overdue}, "%s: what is held, ordered, written off and overdue, in all", when)
	if r := judge.Reservations(&asked, nil, "en"); r.Verdict == judge.Broken {
		p.Errorf("%s: the judge found %s: %s", when, r.Found, strings.Join(append(r.Violations, r.Consequences...), "; "))
	}
	return book
}
