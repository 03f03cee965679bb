package handler

import (
	"context"
	"errors"
	"time"
)

// How many requests may read rows at once, and how long further ones wait. A page takes about a megabyte while it is
// read; an audit takes up to 36 MB. Their places are free again before the answer is written, since a slow reader may
// take up to readerPatience. Large answers that are being written have places of their own. There are more of them,
// since a written page takes some 300 KB, and nobody waits for one: the answer would stay in memory meanwhile. A scrape
// does not wait either. It has places of its own, so that the metrics can be read while large answers take all of
// theirs.
const (
	maxPages      = 8
	pagePatience  = 5 * time.Second
	maxAudits     = 1
	auditPatience = 10 * time.Second
	maxLarge      = 64
	maxScrapes    = 32
)

var (
	errTooManyReads   = errors.New("handler: too many requests read rows at once")
	errTooManyAnswers = errors.New("handler: too many large answers are being read at once")
)

// gate is a counting semaphore.
type gate struct {
	places   chan struct{}
	patience time.Duration
}

func newGate(places int, patience time.Duration) gate {
	return gate{make(chan struct{}, places), patience}
}

// enter waits for a place, for a short time only, since a waiting request occupies a connection. If err is nil, the
// caller must leave the gate.
func (g gate) enter(ctx context.Context) error {
	if g.try() {
		return nil
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

// try takes a place if one is free; then the caller must leave the gate.
func (g gate) try() bool {
	select {
	case g.places <- struct{}{}:
		return true
	default:
		return false
	}
}

func (g gate) leave() { <-g.places }
