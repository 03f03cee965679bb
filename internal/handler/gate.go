package handler

import (
	"context"
	"errors"
	"time"
)

// How many requests may read rows at once, and how long further ones wait. A page takes about a megabyte while it is read and written; an
// audit takes up to 36 MB.
const (
	maxPages      = 8
	pagePatience  = 5 * time.Second
	maxAudits     = 1
	auditPatience = 10 * time.Second
)

var errTooManyReads = errors.New("handler: too many requests read rows at once")

// gate is a counting semaphore.
type gate struct {
	places   chan struct{}
	patience time.Duration
}

func newGate(places int, patience time.Duration) gate {
	return gate{make(chan struct{}, places), patience}
}

// enter waits for a place, for a short time only, since a waiting request occupies a connection. If err is nil, the caller must leave
// the gate.
func (g gate) enter(ctx context.Context) error {
	select {
	case g.places <- struct{}{}:
		return nil
	default:
	}
	t := time.NewTimer(g.patience)
	defer t.Stop()
	select {
	case g.places <- struct{}{}:
		return nil
	case <-t.C:
	case <-ctx.Done():
	}
	return errTooManyReads
}

func (g gate) leave() { <-g.places }
