package shop

import (
	"context"

	"lastitem/internal/idempotency"
	"lastitem/internal/stock"
)

// A batch may contain duplicates, and requests that were answered before. This file finds both.

// repetition is a request, and the first request in the batch with the same identity.
type repetition struct{ again, first *stock.Ticket }

// identity recognises repetitions of a request in one batch: by its key, or by the order's id if a log may hold the
// request twice.
type identity struct{ key, order string }

// firsts splits the batch into the first request of each identity, and the repetitions.
func firsts(batch []*stock.Ticket) (todo []*stock.Ticket, repeated []repetition) {
	var seen map[identity]*stock.Ticket
	for _, t := range batch {
		id := identity{key: string(t.Order.Key)}
		if id.key == "" && t.Run > 0 {
			id.order = t.Order.ID
		}
		if id == (identity{}) {
			todo = append(todo, t)
			continue
		}
		if seen == nil {
			seen = make(map[identity]*stock.Ticket, len(batch))
		}
		if first := seen[id]; first != nil {
			repeated = append(repeated, repetition{t, first})
			continue
		}
		seen[id] = t
		todo = append(todo, t)
	}
	return todo, repeated
}

// repeat copies the result of the first request with the same identity and payload; with a key, its stored answer.
func repeat(t, first *stock.Ticket) {
	switch {
	case first.Receipt.Stored != nil:
		t.Receipt = stock.Receipt{Stored: first.Receipt.Stored, Replayed: true}
	case first.Panicked != nil:
		t.Err = stock.ErrInFlight // nothing happened, and nothing is kept
	default:
		t.Receipt, t.Err = first.Receipt, first.Err
	}
}

// replayTaken answers the requests whose keys have a stored answer, and those whose orders already exist. It returns
// the others.
func (g groupCommit) replayTaken(product int64, batch []*stock.Ticket) (todo []*stock.Ticket) {
	ctx, cancel := stock.Settling(context.Background())
	defer cancel()
	taken, sold, err := g.known(ctx, product, batch)
	if err != nil {
		fail(batch, err)
		return nil
	}
	for _, t := range batch {
		earlier, replays := taken[string(t.Order.Key)]
		remaining, again := sold[t.Order.ID]
		switch {
		case len(t.Order.Key) > 0 && replays:
			t.Receipt, t.Err = replay(t, earlier)
		case again:
			t.Receipt, t.Err = stock.Receipt{OrderID: t.Order.ID, Remaining: remaining}, nil
		default:
			todo = append(todo, t)
		}
	}
	return todo
}

// claimOf returns a ticket's claim on its key.
func claimOf(t *stock.Ticket) idempotency.Claim {
	return idempotency.Claim{Key: t.Order.Key, Product: t.Order.ProductID, Fingerprint: t.Fingerprint, Mode: t.Order.Mode}
}

// replay returns the earlier answer to the ticket's key.
func replay(t *stock.Ticket, earlier idempotency.Record) (stock.Receipt, error) {
	a, err := claimOf(t).Replay(earlier)
	if err != nil {
		return stock.Receipt{}, err
	}
	return stock.Receipt{Stored: &a, Replayed: true}, nil
}

// known returns the stored answers of the batch's keys and, for the existing orders of requests from a log, the stock
// left after each. A key may have been removed before the order of its request.
func (g groupCommit) known(ctx context.Context, product int64,
	batch []*stock.Ticket) (taken map[string]idempotency.Record, sold map[string]*int64, err error) {
	var keys [][]byte
	for _, t := range batch {
		if len(t.Order.Key) > 0 {
			keys = append(keys, t.Order.Key)
		}
	}
	if len(keys) > 0 {
		if taken, err = g.sql.Answers(ctx, keys); err != nil {
			return nil, nil, err
		}
	}
	ids := logged(batch, func(t *stock.Ticket) bool {
		_, replays := taken[string(t.Order.Key)]
		return len(t.Order.Key) == 0 || !replays
	})
	if len(ids) > 0 {
		sold, err = g.sql.Sold(ctx, product, ids)
	}
	return taken, sold, err
}

// logged lists the orders of those tickets of a kind that come from a log.
func logged(batch []*stock.Ticket, kind func(*stock.Ticket) bool) (ids []string) {
	for _, t := range batch {
		if t.Run > 0 && kind(t) {
			ids = append(ids, t.Order.ID)
		}
	}
	return ids
}
