package loadtest

import (
	"net/http"
	"slices"
	"strconv"

	"lastitem/internal/api"
	"lastitem/internal/audit"
)

// Codes of a result beside the problems' codes, the Err constants, and "http_" with a status that says nothing more.
const (
	codeOK = "ok"
	// codeNotConnected is a request that never left, because no connection could be had.
	codeNotConnected = ErrRefused
	// codeRefused is the no of a service that is not ours.
	codeRefused = "refused"
)

// reading is what an answer means.
type reading struct {
	outcome audit.Outcome
	kind    Kind
	code    string
	// again says that the same request may do better, or may tell what became of the first, if it is sent again.
	again bool
}

// classify reads an answer of the contract. Only two things count as a no: a problem whose code says that nothing happened,
// and a connection that was never made. Whatever else is not a 200 may have happened.
func classify(a *Answer) reading {
	if r, done := classifyTransport(a); done {
		return r
	}
	if a.Status == http.StatusOK {
		return reading{outcome: audit.OK, kind: Accepted, code: codeOK}
	}
	facts, known := api.Codes[a.Code]
	if !a.Problem || !known || a.Status < http.StatusBadRequest {
		return reading{outcome: audit.Unknown, kind: Failed, code: statusCode(a.Status), again: true}
	}
	switch {
	case a.Code == api.SoldOut:
		return reading{outcome: audit.Refused, kind: RefusedK, code: string(a.Code)}
	case facts.Happened == api.No:
		return reading{outcome: audit.Declined, kind: RefusedK, code: string(a.Code)}
	case facts.Happened == api.NoForNow:
		return reading{outcome: audit.Declined, kind: RefusedK, code: string(a.Code), again: true}
	default:
		return reading{outcome: audit.Unknown, kind: Failed, code: string(a.Code), again: true}
	}
}

// classifyTransport reads what the transport says, and whether that settles it.
func classifyTransport(a *Answer) (reading, bool) {
	switch {
	case a.Err == "":
		return reading{}, false
	case !a.Sent:
		return reading{outcome: audit.Declined, kind: Failed, code: codeNotConnected, again: true}, true
	default:
		return reading{outcome: audit.Unknown, kind: Failed, code: a.Err, again: true}, true
	}
}

// classifyForeign reads the answers of a service that is not ours, by status alone: what neither list names is unknown.
func classifyForeign(ok, refused []int) func(*Answer) reading {
	return func(a *Answer) reading {
		if r, done := classifyTransport(a); done {
			return r
		}
		switch {
		case slices.Contains(ok, a.Status):
			return reading{outcome: audit.OK, kind: Accepted, code: codeOK}
		case slices.Contains(refused, a.Status):
			return reading{outcome: audit.Refused, kind: RefusedK, code: codeRefused}
		default:
			return reading{outcome: audit.Unknown, kind: Failed, code: statusCode(a.Status), again: true}
		}
	}
}

// statusCode names an answer that says nothing but its status.
func statusCode(status int) string { return "http_" + strconv.Itoa(status) }
