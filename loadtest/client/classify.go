package client

import (
	"net/http"
	"slices"
	"strconv"

	"lastitem/internal/api"
	"lastitem/internal/audit"
)

// Kind tells apart answers that must never be averaged together.
type Kind string

// The kinds.
const (
	Accepted Kind = "accepted" // 200
	Refused  Kind = "refused"  // sold_out and every other final or temporary no
	Failed   Kind = "failed"   // no answer, a broken one, or no connection
)

// Kinds lists the kinds in the order of reports.
var Kinds = []Kind{Accepted, Refused, Failed}

// Codes of a result beside the problems' codes, the Err constants, and "http_" with a status that says nothing more.
const (
	CodeOK = "ok"
	// CodeNotConnected is a request that never left, because no connection could be had.
	CodeNotConnected = ErrRefused
	// CodeRefused is the no of a service that is not ours.
	CodeRefused = "refused"
)

// Reading is what an answer means.
type Reading struct {
	Outcome audit.Outcome
	Kind    Kind
	Code    string
	// Again says that the same request may do better, or may tell what became of the first, if it is sent again.
	Again bool
}

// Classify reads an answer of the contract. Only two things count as a no: a problem whose code says that nothing happened,
// and a connection that was never made. Whatever else is not a 200 may have happened.
func Classify(a *Answer) Reading {
	if r, done := classifyTransport(a); done {
		return r
	}
	if a.Status == http.StatusOK {
		return Reading{Outcome: audit.OK, Kind: Accepted, Code: CodeOK}
	}
	facts, known := api.Codes[a.Code]
	if !a.Problem || !known || a.Status < http.StatusBadRequest {
		return Reading{Outcome: audit.Unknown, Kind: Failed, Code: statusCode(a.Status), Again: true}
	}
	switch {
	case a.Code == api.SoldOut:
		return Reading{Outcome: audit.Refused, Kind: Refused, Code: string(a.Code)}
	case facts.Happened == api.No:
		return Reading{Outcome: audit.Declined, Kind: Refused, Code: string(a.Code)}
	case facts.Happened == api.NoForNow:
		return Reading{Outcome: audit.Declined, Kind: Refused, Code: string(a.Code), Again: true}
	default:
		return Reading{Outcome: audit.Unknown, Kind: Failed, Code: string(a.Code), Again: true}
	}
}

// classifyTransport reads what the transport says, and whether that settles it.
func classifyTransport(a *Answer) (Reading, bool) {
	switch {
	case a.Err == "":
		return Reading{}, false
	case !a.Sent:
		return Reading{Outcome: audit.Declined, Kind: Failed, Code: CodeNotConnected, Again: true}, true
	default:
		return Reading{Outcome: audit.Unknown, Kind: Failed, Code: a.Err, Again: true}, true
	}
}

// ByStatus returns a function that reads the answers of a service that is not ours, by status alone: what neither list names is unknown.
func ByStatus(ok, refused []int) func(*Answer) Reading {
	return func(a *Answer) Reading {
		if r, done := classifyTransport(a); done {
			return r
		}
		switch {
		case slices.Contains(ok, a.Status):
			return Reading{Outcome: audit.OK, Kind: Accepted, Code: CodeOK}
		case slices.Contains(refused, a.Status):
			return Reading{Outcome: audit.Refused, Kind: Refused, Code: CodeRefused}
		default:
			return Reading{Outcome: audit.Unknown, Kind: Failed, Code: statusCode(a.Status), Again: true}
		}
	}
}

// statusCode names an answer that says nothing but its status.
func statusCode(status int) string { return "http_" + strconv.Itoa(status) }
