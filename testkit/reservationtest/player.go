package reservationtest

import (
	"cmp"
	"context"
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
	"lastitem/judge"
	"lastitem/target"
	"lastitem/testkit"
)

// Seam is where the table is played.
type Seam struct {
	Service
	Store string        // the ids of its reservations begin with it
	Key   string        // its keys and payments begin with it
	Brief time.Duration // the shortest time that it holds for
	Lacks []string      // verbs, or "segments"; it plays no row that has one of them
}

// Service is what a seam does.
type Service interface {
	// Ask makes a request; its kind may be [Read] too. Its mode is [Absolute] in a sale by an absolute count, else "".
	Ask(ctx context.Context, a target.Ask) Answer
	// Reset makes a product new.
	Reset(ctx context.Context, product, stock int64, rules ledger.Rules) error
	// Sweep ends what is overdue, of the product at least, and returns how many that were.
	Sweep(ctx context.Context, product int64) (int, error)
	// Book reads all reservations of the product's run.
	Book(ctx context.Context, product int64) (*api.Reservations, error)
}

// What a [Service] is asked for beside what the contract has.
const (
	Read     = judge.ReservationKind("read")
	Absolute = "absolute"
)

// Answer is an answer, with what the table tells of refusals and returns.
type Answer struct {
	target.Answer
	Available *int64     `json:"available"`
	PerBuyer  int64      `json:"per_buyer"`
	Quantity  int64      `json:"quantity"`
	Items     []api.Line `json:"items"`
	Uncounted bool       `json:"-"` // a sale that does not count for the limit of its buyer
}

// units are those of a reservation.
func (a Answer) units() (n int64) {
	for _, item := range a.Items {
		n += item.Quantity
	}
	return n
}

// knows reports whether the seam knows all verbs of sentences.
func (s Seam) knows(sentences string) bool {
	return !slices.ContainsFunc(s.Lacks, func(verb string) bool {
		return strings.Contains(" "+sentences, " "+verb+" ") || strings.Contains(sentences, "\t"+verb+" ")
	})
}

// Player says sentences about a product. Several goroutines may say them at once.
type Player struct {
	testing.TB
	Seam
	Product int64
	Space   string // payments and keys, which outlive a run, have it before their names

	mu          sync.Mutex
	ids, orders map[string]string     // by name
	bought      map[string]string     // reservation of an order
	ops         []judge.ReservationOp // of this run
	sold        []api.ReservationRow  // by sales of this run
}

// New is a player who has said nothing yet.
func New(t testing.TB, s Seam, product int64) *Player {
	return &Player{TB: t, Seam: s, Product: product, ids: map[string]string{}, orders: map[string]string{},
		bought: map[string]string{}}
}

// Begin sets the stock to five: a new run begins.
func (p *Player) Begin(rules ledger.Rules) {
	p.Helper()
	p.sold, p.ops = nil, nil
	testkit.Must(p.TB, p.Reset(p.Context(), p.Product, 5, rules))
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
		if before, after, unsaid := strings.Cut(got, "?"); unsaid { // how many are left, which the books must say
			got = before + fmt.Sprint(p.book().Stock) + after
		}
		testkit.Is(p.TB, got, strings.TrimSpace(want), "%s", sentence)
		then(sentence)
	}
}

// Do says a sentence of verb, name and more, and returns what came of it.
func (p *Player) Do(sentence string) string {
	p.Helper()
	words := append(strings.Fields(sentence), "", "", "")
	verb, name, more, last := words[0], words[1], words[2], words[3]
	a := target.Ask{Product: p.Product, Reservation: p.ID(name), Wait: testkit.Most / 3}
	a.Quantity, _ = strconv.ParseInt(more, 10, 64)
	a.Buyer, _, _ = strings.Cut(name, "/")
	if !strings.Contains(name, "-") {
		a.Key = p.key(name)
	}
	switch verb {
	case "hold", "again":
		a.Kind, a.For, a.Reservation = judge.Reserve, time.Minute, p.newID()
		if last != "" {
			a.For, _ = time.ParseDuration(last)
		}
	case "brief", "brief-again":
		a.Kind, a.For, a.Reservation = judge.Reserve, p.Brief, p.newID()
	case "confirm":
		a.Kind, a.Key = judge.Confirm, p.key(more)
	case "cancel", "read":
		a.Kind = judge.ReservationKind(verb)
	case "extend":
		a.Kind, a.Key = judge.Extend, p.key(last)
		a.For, _ = time.ParseDuration(more)
	case "cancel-part":
		a.Kind, a.Part, a.Key = judge.Cancel, a.Quantity, p.key(last)
	case "restock", "write-off":
		a.Kind, a.Order, a.Restock = judge.Return, cmp.Or(p.orders[name], uuid.NewString()), verb == "restock"
		a.Part, a.Key = a.Quantity, p.key(last)
	case "adjust":
		a.Kind = judge.Adjust
	case "sell":
	case "overwrite":
		a.Mode = Absolute
	default:
		return p.move(verb, a.Reservation)
	}
	if a.Kind == judge.Return {
		a.Reservation = p.bought[a.Order]
	}
	called := time.Now()
	said := p.Ask(p.Context(), a)
	op := a.ReservationOp(said.Answer)
	op.Call, op.Return = called.UnixNano(), time.Now().UnixNano()
	op.PaymentID = api.KeyText([]byte(op.PaymentID))
	if op.Kind == judge.Reserve || op.Kind == judge.Adjust {
		op.Key = api.KeyText([]byte(op.Key))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.Kind == judge.Reserve || a.Kind == judge.Adjust ||
		slices.Contains(judge.ReservationKinds, a.Kind) && p.made(a.Reservation) {
		p.ops = append(p.ops, op)
	}
	return p.tell(a, said, name, more)
}

// key is that of a name, "" without one.
func (p *Player) key(name string) string {
	if name == "" {
		return ""
	}
	return p.Key + p.Space + name
}

// move does what is no request.
func (p *Player) move(verb, reservation string) string {
	switch verb {
	case "late":
		testkit.Until(p.TB, reservation+" is overdue", func() bool {
			book := p.book()
			return book.AsOfMicros >= rowOf(book, reservation).ExpiresMicros
		})
		return ""
	case "sweep":
		n, err := p.Sweep(p.Context(), p.Product)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(n)
	case "reset":
		p.Begin(ledger.Rules{})
		return ""
	}
	return "no verb " + verb
}

// ID is that of a reservation, or one that nobody has.
func (p *Player) ID(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.ids[name], p.newID())
}

func (p *Player) newID() string { return fmt.Sprint(p.Store, "-", p.Product, "-", uuid.New()) }

// made reports whether a reservation was made in this run.
func (p *Player) made(id string) bool {
	return slices.ContainsFunc(p.ops, func(op judge.ReservationOp) bool {
		return op.Kind == judge.Reserve && op.ReservationID == id
	})
}

// tell renders an answer.
func (p *Player) tell(a target.Ask, said Answer, name, payment string) string {
	refund, replay := when(said.Refund == api.RefundYes, " refund"), when(said.Replayed, " replay")
	switch {
	case said.Code == api.SoldOut:
		return fmt.Sprint(said.Code, " ", number(said.Available))
	case said.Code == api.LimitReached:
		return fmt.Sprint(said.Code, " ", said.PerBuyer)
	case said.Code != "" && said.State == "":
		return string(said.Code) + refund
	case a.Kind == judge.Reserve && said.Replayed && p.ids[name] != "" && p.ids[name] != said.ReservationID:
		return "another reservation"
	case a.Kind == judge.Reserve:
		p.ids[name] = said.ReservationID
		return said.State + " " + number(said.Remaining) + when(said.units() != a.Quantity, " in another quantity") + replay
	case a.Kind == judge.Confirm && said.OrderID != "":
		p.bought[said.OrderID] = a.Reservation
		return said.State + " o" + payment + p.keep("o"+payment, said.OrderID) + refund + replay
	case a.Kind == judge.Adjust:
		return fmt.Sprintf("adjusted %+d", said.Delta) + replay
	case a.Kind == judge.Extend:
		return said.State + p.extended(said) + replay
	case a.Kind == judge.Return:
		part := api.ReturnedPart{Quantity: said.Quantity, Restocked: said.Restock}
		if a.Part > 0 {
			part.Request = ledger.Digest([]byte(a.Key))
		}
		for _, row := range p.sold {
			if o := &row.Orders[0]; o.OrderID == a.Order && part.Quantity > 0 && !slices.Contains(o.Returns, part) {
				o.Returns = append(o.Returns, part)
			}
		}
		return fmt.Sprint(said.Quantity, said.Restock)
	case a.Part > 0 && said.Outcome == judge.OK:
		return fmt.Sprint(said.State, " ", said.units(), replay)
	case a.Kind == "":
		p.sold = append(p.sold, sold(said.OrderID, map[bool]string{false: a.Buyer}[said.Uncounted], a.Quantity))
		return "sold " + number(said.Remaining) + p.keep(name, said.OrderID)
	}
	return said.State + refund
}

func when(is bool, word string) string { return map[bool]string{true: word}[is] }

func number(left *int64) string {
	if left == nil {
		return "?"
	}
	return fmt.Sprint(*left)
}

// keep gives an order a name, and says if another one has it.
func (p *Player) keep(name, order string) string {
	first := p.orders[name]
	p.orders[name] = order
	return when(first != "" && first != order, ", and was another order")
}

// extended says by how much, to the nearest minute, a reservation was extended, if it is held.
func (p *Player) extended(said Answer) string {
	if said.State != target.StateHeld {
		return ""
	}
	for _, e := range rowOf(p.book(), said.ReservationID).Events {
		if e.Was == e.Now && e.DeadlineMicros == said.ExpiresAt.UnixMicro() {
			return " by " + (time.Duration(e.DeadlineMicros-e.AtMicros) * time.Microsecond).Round(time.Minute).String()
		}
	}
	return " until another time than in the books"
}

func (p *Player) book() *api.Reservations {
	book, err := p.Book(p.Context(), p.Product)
	if testkit.Check(p.TB, err); err != nil {
		book = new(api.Reservations)
	}
	return book
}

func rowOf(book *api.Reservations, id string) (row api.ReservationRow) {
	if i := slices.IndexFunc(book.Rows, func(r api.ReservationRow) bool { return r.ReservationID == id }); i >= 0 {
		row = book.Rows[i]
	}
	return row
}

// sold is a sale as a reservation that was confirmed: only with it do the sums of the judge agree.
func sold(order, buyer string, units int64) api.ReservationRow {
	const held, confirmed = string(ledger.Held), string(ledger.Confirmed)
	return api.ReservationRow{ReservationID: order, Buyer: buyer, State: confirmed, Quantity: units,
		Orders:   []api.ReservationOrder{{OrderID: order, Payment: order, Buyer: buyer, Quantity: units}},
		Events:   []api.ReservationEvent{{Now: held, DeadlineMicros: 1}, {Was: held, Now: confirmed}},
		Payments: []api.ReservationPaid{{Payment: order, OrderID: order}}}
}

// Sound reads the books, and asks the judge whether they are right, by themselves and by what was answered. Of what is
// overdue he is asked as of the moment before.
func (p *Player) Sound(when string) *api.Reservations {
	p.Helper()
	book := p.book()
	asked, overdue := *book, int64(0)
	asked.Rows = append(slices.Clone(book.Rows), p.sold...)
	for _, row := range book.Rows {
		if row.State == target.StateHeld && book.AsOfMicros >= row.ExpiresMicros {
			overdue += row.Quantity
			asked.AsOfMicros = min(asked.AsOfMicros, row.ExpiresMicros-1)
		}
	}
	held, ordered, gone := asked.Count()
	testkit.Is(p.TB, [4]int64{book.Held, book.Ordered, book.WrittenOff, book.Overdue},
		[4]int64{held, ordered, gone, overdue}, "%s: what is held, ordered, written off and overdue, in all", when)
	testkit.Is(p.TB, len(book.BuyerUnits) > 0 && book.PerBuyer == 0, false, "%s: a limit counts that is not there", when)
	if r := judge.Reservations(&asked, p.ops, "en"); r.Verdict == judge.Broken {
		p.Errorf("%s: the judge found %s: %s", when, r.Found, strings.Join(append(r.Violations, r.Consequences...), "; "))
	}
	return book
}
