package target

import (
	"context"
	"errors"
	"net/url"
	"time"

	"lastitem/contract/api"
	"lastitem/say/text"
)

const (
	// An overdue reservation is not lost before settleSlack and a sweep have passed. settleSweep is the longest time
	// between two sweeps, unless the service says more.
	settleSlack = 2 * time.Second
	settleSweep = 1500 * time.Millisecond
	// settleAtLeast is for how long reservations are read again while they move.
	settleAtLeast = 30 * time.Second
	// Unreserved and writtenOff are the ids of the rows that stand for all orders without a reservation, and for those
	// that were returned and not put back.
	Unreserved, writtenOff = "unreserved", "written off"
)

// Why reservations could not be read as of one moment.
var (
	errDue     = text.Of("reservations fell due for as long as they were read").Errorf()
	errMoved   = text.Of("reservations or orders were added or ended while their pages were read").Errorf()
	errNoPages = text.Of("the reservations changed at every try to read them, or their store is out: %w")
)

// book is a reading of a product's reservations.
type book struct {
	*api.Reservations
	more unlisted
}

// unlisted are the units of the totals that no row has.
type unlisted struct{ held, ordered, gone int64 }

// Reservations returns all that one store holds on a product's reservations, as of one moment at which none is overdue;
// some are only if no sweep ends them. So it reads again while the number of the overdue falls, and for two seconds and
// a sweep more; and, until half a minute has passed or ctx ends, while what it reads changes or one has only just
// fallen due. Orders without a reservation have rows together, with the id [Unreserved].
func (s *Shop) Reservations(ctx context.Context, product int64, store api.Store) (*api.Reservations, error) {
	least, patience, began, fell := int64(-1), settleSlack+settleSweep, time.Now(), time.Now()
	var notYet error // why the last reading does not count
	var more unlisted
	same := 0
	read := func(ctx context.Context) (book, error) { return s.readBook(ctx, product, store) }
	last, _ := settle(ctx, read, func(b book, err error, _ time.Time) bool {
		p, refused := errors.AsType[*ProblemError](err)
		switch {
		case refused && p.Problem.Code == api.BackendUnavailable:
			notYet = errNoPages.Errorf(err)
		case err != nil:
			notYet = err
			return false
		default:
			if same++; b.more != more {
				more, same = b.more, 1
			}
			sweep := time.Duration(b.SweepMS) * time.Millisecond
			patience = max(patience, settleSlack+sweep+sweep/2)
			if least < 0 || b.Overdue < least {
				least, fell = b.Overdue, time.Now()
			}
			switch {
			case b.Overdue > 0 && min(time.Since(fell), longestOverdue(b.Reservations)) < patience:
				notYet = errDue
			case more != unlisted{} && same < ledgerTries:
				notYet = errMoved
			default:
				notYet = nil
				return false
			}
		}
		return time.Since(fell) <= patience || time.Since(began) <= settleAtLeast
	})
	if notYet != nil {
		return nil, notYet
	}
	return last.whole()
}

// whole is a book at rest, with rows for the units that none has.
func (b book) whole() (*api.Reservations, error) {
	switch more := b.more; {
	case more == unlisted{held: min(more.held, 0)}: // its own count has lost what its rows hold: they are judged
	case more.held != 0 || more.ordered < 0 || more.gone < 0 || b.PerBuyer > 0: // the limit counts some of them
		return nil, text.Of("the rows of the reservations and their totals differ: held %d, ordered %d, written off %d").
			Errorf(more.held, more.ordered, more.gone)
	default:
		b.add(Unreserved, more.ordered)
		b.add(writtenOff, more.gone)
	}
	return b.Reservations, nil
}

// longestOverdue is for how long the oldest of the overdue reservations has been so.
func longestOverdue(book *api.Reservations) time.Duration {
	first := book.AsOfMicros
	for _, row := range book.Rows {
		if row.State == StateHeld {
			first = min(first, row.ExpiresMicros)
		}
	}
	return time.Duration(book.AsOfMicros-first) * time.Microsecond
}

// add adds a confirmed reservation that stands for so many units ordered without one. Nobody knows when it was made.
func (b book) add(id string, units int64) {
	if units == 0 {
		return
	}
	const sold = "confirmed"
	row := api.ReservationRow{ReservationID: id, State: sold, Quantity: units, ExpiresMicros: 1,
		Orders: []api.ReservationOrder{{OrderID: id, Payment: id, Quantity: units}},
		Events: []api.ReservationEvent{{Now: StateHeld, DeadlineMicros: 1},
			{Was: StateHeld, Now: sold, DeadlineMicros: 1}},
		Payments: []api.ReservationPaid{{Payment: id, OrderID: id}}}
	if id == writtenOff {
		row.Orders[0].Returns = []api.ReturnedPart{{Quantity: units}}
	}
	if len(b.Rows) > 0 {
		row.Replica, row.Mode = b.Rows[0].Replica, b.Rows[0].Mode // which are known already
	}
	b.Rows = append(b.Rows, row)
}

// readBook reads all that one store holds on a product's reservations once, overdue ones too. Its pages may be of
// several moments.
func (s *Shop) readBook(ctx context.Context, product int64, store api.Store) (book, error) {
	path := productPath(product, "/reservations?store="+url.QueryEscape(string(store)))
	all := new(api.Reservations)
	if err := s.getPatiently(ctx, path, all); err != nil {
		return book{}, err
	}
	for cursor := all.NextCursor; cursor != ""; {
		var page api.Reservations
		if err := s.getPatiently(ctx, path+"&cursor="+url.QueryEscape(cursor), &page); err != nil {
			return book{}, err
		}
		all.Rows = append(all.Rows, page.Rows...)
		if len(all.Rows) > s.most() || len(page.Rows) == 0 && page.NextCursor != "" {
			return book{}, text.Of("GET %s: more than %d rows").Errorf(path, s.most())
		}
		cursor = page.NextCursor
	}
	held, ordered, gone := all.Count()
	return book{all, unlisted{all.Held - held, all.Ordered - ordered, all.WrittenOff - gone}}, nil
}

// ReservationsNow reads what one store holds on a product's reservations once, whatever is due.
func (s *Shop) ReservationsNow(ctx context.Context, product int64, store api.Store) (*api.Reservations, error) {
	b, err := s.readBook(ctx, product, store)
	return b.Reservations, err
}
