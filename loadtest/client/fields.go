package client

import (
	"bytes"

	"github.com/go-json-experiment/json"

	"lastitem/contract/api"
)

// readFields reads order_id, remaining and code from a JSON body. It fails if the body of a 200 or a problem is not one
// JSON object, or gives a name twice; other bodies are ignored.
func readFields(body []byte, a *Answer) error {
	if a.Status != 200 && !a.Problem {
		return nil
	}
	var fields struct {
		OrderID   string   `json:"order_id"`
		Remaining *int64   `json:"remaining"`
		Code      api.Code `json:"code"`
	}
	// The library accepts null, but null is not an answer.
	if err := json.Unmarshal(body, &fields); err != nil || bytes.HasPrefix(bytes.TrimSpace(body), []byte("null")) {
		return badAnswer("body %.60q", body)
	}
	a.OrderID, a.Code = fields.OrderID, fields.Code
	a.HasRemaining = fields.Remaining != nil
	if a.HasRemaining {
		a.Remaining = *fields.Remaining
	}
	return nil
}
