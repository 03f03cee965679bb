package client

import (
	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/target"
)

// Kind tells apart answers that must never be averaged together.
type Kind string

// The kinds.
const (
	Accepted Kind = "accepted" // 200
	Refused  Kind = "refused"  // sold_out and every other final or temporary refusal
	Failed   Kind = "failed"   // no answer, a broken one, or no connection
)

// Kinds lists the kinds in the order of reports.
var Kinds = []Kind{Accepted, Refused, Failed}

// Codes of a result beside the problems' codes, the Err constants, and "http_" with a status that says nothing more.
const (
	CodeOK = "ok"
	// CodeNotConnected is a request that never left, because no connection could be had.
	CodeNotConnected = ErrRefused
	// CodeRefused is a refusal by a service that is not ours.
	CodeRefused = "refused"
	// Good answers that are no sale, beside the states of a reservation.
	CodeCancelled = "cancelled"
	CodeShipped   = "shipped"
	CodeExtended  = "extended"
	CodeReturned  = "returned"
	CodeAdjusted  = "adjusted"
	// CodeNotAdjusted is an adjustment that was refused, since fewer units were free than it was to take.
	CodeNotAdjusted = "not_adjusted"
)

// Classify reads an answer to a request of a kind ("" = a deduction): read reads the reply, if there is one. A
// connection that was never made is a refusal too; after anything else that does not say so, the request may have been
// executed.
func Classify(a *Answer, kind judge.ReservationKind, read func(judge.ReservationKind,
	target.Reply) target.Answer) (target.Answer,
	Kind) {
	if a.Err != "" {
		lost := target.Answer{Outcome: judge.Unknown, Again: true, Code: api.Code(a.Err), Replica: a.Replica}
		if !a.Sent {
			lost.Outcome, lost.Code = judge.Declined, CodeNotConnected
		}
		return lost, Failed
	}
	switch said := read(kind, a.Reply); said.Outcome {
	case judge.OK:
		return said, Accepted
	case judge.Unknown:
		return said, Failed
	default:
		return said, Refused
	}
}
