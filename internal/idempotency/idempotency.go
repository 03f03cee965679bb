// Package idempotency keeps the first answer to a request under its key, so that a repetition gets the same answer and
// no second effect. The contract: key and answer are written in the same transaction as the effect.
package idempotency

// Answer is a stored response, replayed byte for byte.
type Answer struct {
	Status int
	Body   []byte
}

// MaxKey is the longest key in bytes. Keys are bytes: no case folding, no trailing blanks ignored, nothing truncated.
const MaxKey = 255
