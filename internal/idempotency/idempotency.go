// Package idempotency keeps the first answer to a request under its key, so that a repetition gets the same answer and
// has no second effect. Key and answer are written in the same transaction as the effect:
//
//	claim the key ── first? ── yes: the effect ── keep the answer ── COMMIT
//	                    └─ no: the same payload? ── yes: replay the answer · no: refused
//
// [Claim] is one request's claim, and [Claim.Once] the protocol above on a [Table]. Code that decides for several
// requests at once uses its parts: [Claim.Replay] and [Claim.Record]. A [Lock] on the key answers "in flight" to most
// rivals; where it is lost, the unique index of the table still decides. [Retention] says for how long a key protects
// its request. A [Template] is an answer that is rendered before the effect happens.
package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"
)

// The errors of a request with a key. Nothing happened.
var (
	ErrKeyMissing = errors.New("idempotency: this mode needs a key")
	ErrKeyReused  = errors.New("idempotency: the key was used with another payload")
	// as a rule an *InFlightError
	ErrInFlight = errors.New("idempotency: the first request with this key is still in flight")
)

// Answer is a stored response, replayed byte for byte.
type Answer struct {
	Status int
	Body   []byte
}

// MaxKey is the longest key in bytes. Keys are bytes: no case folding, no trailing blanks ignored, nothing truncated.
const MaxKey = 255

// Record is an answer as a table keeps it.
type Record struct {
	Fingerprint []byte // of the payload, see [Fingerprint]
	Status      int
	Body        []byte
	Mode        string // the mode that stored it
}

// Table is the table of keys, as a transaction sees it.
type Table interface {
	// ClaimKey inserts the key. first says that nobody had it; otherwise earlier is its answer. Until the transaction
	// ends, a rival with the same key blocks in its own ClaimKey.
	ClaimKey(key []byte, product int64, fingerprint []byte, micros int64) (first bool, earlier Record, err error)
	// KeepAnswer stores the answer under a claimed key.
	KeepAnswer(key []byte, r Record) error
}

// Claim is the claim of a request on its key.
type Claim struct {
	Key         []byte
	Product     int64  // the row belongs to it: a reset of the product deletes its keys
	Fingerprint []byte // of the payload
	Mode        string
}

// Once executes effect if nobody has used the key before, and keeps its answer; an error of effect keeps none.
// Otherwise it returns the earlier answer, or ErrKeyReused. The caller commits the transaction or rolls it back.
func (c Claim) Once(t Table, effect func() (Answer, error)) (a Answer, replayed bool, err error) {
	first, earlier, err := t.ClaimKey(c.Key, c.Product, c.Fingerprint, time.Now().UnixMicro())
	if err != nil {
		return Answer{}, false, err
	}
	if !first {
		a, err = c.Replay(earlier)
		return a, err == nil, err
	}
	if a, err = effect(); err != nil {
		return Answer{}, false, err
	}
	return a, false, t.KeepAnswer(c.Key, c.Record(a))
}

// Replay returns the earlier answer to the key, or ErrKeyReused if it belongs to another payload or another mode.
func (c Claim) Replay(earlier Record) (Answer, error) {
	if !bytes.Equal(earlier.Fingerprint, c.Fingerprint) || earlier.Mode != c.Mode {
		return Answer{}, ErrKeyReused
	}
	return Answer{Status: earlier.Status, Body: earlier.Body}, nil
}

// Record is what a table keeps of the answer to this claim.
func (c Claim) Record(a Answer) Record {
	return Record{Fingerprint: c.Fingerprint, Status: a.Status, Body: a.Body, Mode: c.Mode}
}

// Fingerprint tells one payload from another under the same key, so that the first is not answered for the second. It
// is the SHA-256 of the payload's JSON.
func Fingerprint(payload any) ([]byte, error) {
	text, err := json.Marshal(payload)
	sum := sha256.Sum256(text)
	return sum[:], err
}
