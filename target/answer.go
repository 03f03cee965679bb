package target

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"lastitem/contract/api"
	"lastitem/judge"
)

// Answer is what a reply says. Its outcome follows three rules:
//
//   - OK is a 200, 201 or 202 that names what it is about: the order, the reservation, or the ticket for an order;
//   - a refusal is a problem document, with a status of 400 or more, whose code the contract knows: Refused if it is
//     final and the stock or the reservation must justify it, Declined for every other code that says "nothing
//     happened";
//   - everything else is Unknown: it may have happened.
type Answer struct {
	Outcome judge.Outcome `json:"-"`
	// Again says that sending the same request again may succeed, or may show the outcome of the first.
	Again bool `json:"-"`
	// Code is the problem's, "http_" with the status of a reply that says nothing, or [CodeBadAnswer]; "" if it is OK.
	Code api.Code `json:"code"`

	OrderID       string     `json:"order_id"`
	TicketID      string     `json:"ticket_id"`
	Remaining     *int64     `json:"remaining"` // nil = not told
	ReservationID string     `json:"reservation_id"`
	State         string     `json:"state"`
	ExpiresAt     time.Time  `json:"expires_at"`
	Refund        api.Refund `json:"refund"`
	ProductID     int64      `json:"product_id"` // that has refused a cart
	Restock       bool       `json:"restock"`
	Delta         int64      `json:"delta"` // by which the stock was adjusted

	Replica    string        `json:"-"`
	Replayed   bool          `json:"-"`
	RetryAfter time.Duration `json:"-"` // 0 = not given
}

// CodeBadAnswer is the code of a reply whose bytes are not what its status or its content type says.
const CodeBadAnswer api.Code = "bad_answer"

// StateExpired and StateHeld are states of a reservation.
const (
	StateHeld    = "held"
	StateExpired = "expired"
)

// final are the codes of a no that the stock, or the end of the reservation, must justify.
var final = map[api.Code]bool{api.SoldOut: true, api.ReservationExpired: true, api.ReservationCancelled: true,
	api.ReservationConfirmed: true}

// unknown is the answer of a reply that does not say what happened.
func unknown(r Reply) Answer {
	a := answerTo(r)
	a.Outcome, a.Again, a.Code = judge.Unknown, true, api.Code("http_"+strconv.Itoa(r.Status))
	return a
}

// answerTo is an answer with what the header says.
func answerTo(r Reply) Answer {
	return Answer{Replica: r.Replica, Replayed: r.Replayed, RetryAfter: r.RetryAfter}
}

// Read reads the reply to a request of a kind ("" = a deduction) by the contract. A body that can be read in two ways,
// or that is no JSON object, is a bad answer, never a guess.
func Read(kind judge.ReservationKind, r Reply) Answer {
	good := r.Status == http.StatusOK || r.Status == http.StatusCreated || r.Status == http.StatusAccepted
	if !good && (!r.Problem || r.Status < http.StatusBadRequest) {
		return unknown(r)
	}
	a := answerTo(r)
	// The library accepts null, but null is not an answer.
	if err := json.Unmarshal(r.Body, &a); err != nil || bytes.HasPrefix(bytes.TrimSpace(r.Body), []byte("null")) {
		a = unknown(r)
		a.Code = CodeBadAnswer
		return a
	}
	if r.Status == http.StatusAccepted { // the promise of an order, which the ledger must have once the tickets have ended
		a.OrderID = api.Ticket{TicketID: a.TicketID}.OrderOf()
	}
	facts, known := api.Codes[a.Code]
	switch {
	case good && a.names(kind) == "", !good && !known:
		return unknown(r)
	case good:
		a.Outcome, a.Code = judge.OK, ""
	case facts.Happened == api.Unknown:
		a.Outcome, a.Again = judge.Unknown, true
	case final[a.Code]:
		a.Outcome = judge.Refused
	default:
		a.Outcome, a.Again = judge.Declined, facts.Happened == api.NoForNow
	}
	return a
}

// names is the id of what a good answer to a request of the kind is about.
func (a Answer) names(kind judge.ReservationKind) string {
	switch kind {
	case judge.Reserve, judge.Cancel, judge.Extend:
		return a.ReservationID
	case judge.Adjust:
		return strings.Trim(strconv.FormatInt(a.Delta, 10), "0")
	}
	return a.OrderID
}

// digits are numbers and ids.
var digits = regexp.MustCompile(`[0-9a-fA-F]*[0-9][0-9a-fA-F-]*`)

// outcomeNames are the members of a JSON body whose values say what happened.
var outcomeNames = regexp.MustCompile(`(?i)^(status|state|code|err(or)?_?(code|no|description)?|result|outcome|message|msg|reason|type|` +
	`title|detail|description)$`)

// Shapes is what two answers that say the same have in common: the status, and the names, types and truth values of a
// JSON body, first with the values of the members that are telling, or the text of another body, less numbers and ids.
func Shapes(r Reply) [2]string {
	var v any
	if json.Unmarshal(r.Body, &v) == nil {
		return [2]string{fmt.Sprint(r.Status, " ", shapeIn("", v, true)), fmt.Sprint(r.Status, " ", shapeIn("", v, false))}
	}
	said := digits.ReplaceAllString(r.Location+" "+string(r.Body), "#")
	shape := fmt.Sprintf("%d %.200s", r.Status, strings.Join(strings.Fields(said), " "))
	return [2]string{shape, shape}
}

func shapeIn(name string, v any, strict bool) string {
	tells := strict && outcomeNames.MatchString(name)
	switch v := v.(type) {
	case map[string]any:
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(&b, "%s:%s,", name, shapeIn(name, v[name], strict))
		}
		return "{" + b.String() + "}"
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		return "[" + shapeIn("", v[0], strict) + "]"
	case string:
		if !tells {
			return "text"
		}
		return digits.ReplaceAllString(v, "#")
	case float64:
		if !tells {
			return "number"
		}
	}
	return fmt.Sprint(v) // true, false, null, or a telling number
}
