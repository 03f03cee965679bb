package handler

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

// admin knows the admin token.
type admin struct {
	let     bool // there is one
	token   [sha256.Size]byte
	guesses bucket
}

// authorize compares the bearer token with the admin token, in a time that does not depend on either: it compares
// hashes, which are of equal length, to the last byte. Without a token configured nobody is let in.
func (a *admin) authorize(r *http.Request) error {
	if !a.let {
		return errNoAdminToken
	}
	given := r.Header["Authorization"]
	if len(given) == 0 { // no guess
		return errUnauthorized
	}
	if len(given) != 1 {
		return a.wrong(time.Now())
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if subtle.ConstantTimeCompare(sum[:], a.token[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return a.wrong(time.Now())
	}
	return nil
}

// wrong refuses a request without the admin token: with 401, or with 429 once wrong tokens come faster than
// tokenRefill. The right token is checked first and always passes; otherwise anybody could lock the operator out. So
// this does not limit the guesses: nginx does, which knows the clients, by counting the requests of each that carry a
// token. A replica without such a proxy in front needs a token that is too long to be guessed.
func (a *admin) wrong(now time.Time) error {
	if a.guesses.take(now) {
		return errUnauthorized
	}
	return errTooManyTokens
}

// experiment refuses lease_ms, depth and hold_ms without the admin token: a client that may hold a lock for as long as
// it likes, or lose it when it likes, can stop the shop, or have it oversell. The answer is 403, not 401: the route
// needs no token, only these fields.
func (a *admin) experiment(r *http.Request) error {
	err := a.authorize(r)
	if errors.Is(err, errUnauthorized) || errors.Is(err, errNoAdminToken) {
		return errExperiment
	}
	return err
}

// Wrong tokens get 401 at this rate: tokenBurst at once, then one per tokenRefill.
const (
	tokenBurst  = 20
	tokenRefill = time.Second
)

// bucket is a token bucket of tokenBurst that gains one per tokenRefill. The zero value is full.
type bucket struct {
	mu    sync.Mutex
	empty time.Time // when the bucket was or would be empty
}

// take removes one token; false if the bucket is empty.
func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if full := now.Add(-tokenBurst * tokenRefill); b.empty.Before(full) {
		b.empty = full
	}
	if next := b.empty.Add(tokenRefill); !next.After(now) {
		b.empty = next
		return true
	}
	return false
}
