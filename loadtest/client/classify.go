package client

import (
	"net/http"
	"strconv"

	"lastitem/contract/api"
	"lastitem/judge"
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
)

// Reading is the meaning of an answer.
type Reading struct {
	Outcome judge.Outcome
	Kind    Kind
	Code    string
	// Again says that sending the same request again may succeed, or may show the outcome of the first.
	Again bool
}

// Classify classifies an answer of our API. Only two kinds count as a refusal: a problem whose code says that nothing
// happened, and a connection that was never made. After any other answer except 200, the deduction may have happened.
func Classify(a *Answer) Reading {
	if r, done := classifyTransport(a); done {
		return r
	}
	if a.Status == http.StatusOK {
		return Reading{Outcome: judge.OK, Kind: Accepted, Code: CodeOK}
	}
	facts, known := api.Codes[a.Code]
	if !a.Problem || !known || a.Status < http.StatusBadRequest {
		return Reading{Outcome: judge.Unknown, Kind: Failed, Code: statusCode(a.Status), Again: true}
	}
	switch {
	case a.Code == api.SoldOut:
		return Reading{Outcome: judge.Refused, Kind: Refused, Code: string(a.Code)}
	case facts.Happened == api.No:
		return Reading{Outcome: judge.Declined, Kind: Refused, Code: string(a.Code)}
	case facts.Happened == api.NoForNow:
		return Reading{Outcome: judge.Declined, Kind: Refused, Code: string(a.Code), Again: true}
	default:
		return Reading{Outcome: judge.Unknown, Kind: Failed, Code: string(a.Code), Again: true}
	}
}

// classifyTransport classifies a transport error; false if there is none.
func classifyTransport(a *Answer) (Reading, bool) {
	switch {
	case a.Err == "":
		return Reading{}, false
	case !a.Sent:
		return Reading{Outcome: judge.Declined, Kind: Failed, Code: CodeNotConnected, Again: true}, true
	default:
		return Reading{Outcome: judge.Unknown, Kind: Failed, Code: a.Err, Again: true}, true
	}
}

// ByOutcome returns a function that classifies the answers of a service that is not ours as read does, and notes the
// order that it finds.
func ByOutcome(read func(status int, body []byte) judge.Op) func(*Answer) Reading {
	return func(a *Answer) Reading {
		if r, done := classifyTransport(a); done {
			return r
		}
		op := read(a.Status, a.Body)
		a.OrderID = op.OrderID
		switch op.Outcome {
		case judge.OK:
			return Reading{Outcome: judge.OK, Kind: Accepted, Code: CodeOK}
		case judge.Refused:
			return Reading{Outcome: judge.Refused, Kind: Refused, Code: CodeRefused}
		case judge.Declined:
			return Reading{Outcome: judge.Declined, Kind: Refused, Code: string(api.LockBusy), Again: true}
		default:
			return Reading{Outcome: judge.Unknown, Kind: Failed, Code: statusCode(a.Status), Again: true}
		}
	}
}

// statusCode names an answer that has only a status.
func statusCode(status int) string { return "http_" + strconv.Itoa(status) }
