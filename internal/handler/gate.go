package handler

import (
	"context"
	"errors"
	"time"
)

// How many requests read rows at once, and how long the next ones wait for their turn. A page costs about a megabyte while it is read
// and written; an audit remembers up to 25 MB.
const (
	maxPages      = 8
	pagePatience  = 5 * time.Second
	maxAudits     = 1
	auditPatience = 10 * time.Second
)

var errTooManyReads = errors.New("handler: too many requests read rows at once")

// gate lets a number of requests in at once.
type gate struct {
	places   chan struct{}
	patience time.Duration
}

func newGate(places int, patience time.Duration) gate {
	return gate{make(chan struct{}, places), patience}
}

// enter waits for a place, but not long: whoever is in a queue holds a connection. It must be left again where err is nil.
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
