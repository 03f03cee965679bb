// Package payment has the endpoint at which a payment provider tells a shop what became of a checkout, to be copied:
// webhook.go, which needs the standard library and lastitem's API, and nothing of a provider. docs/payment.md says what
// leads to what. provider.go is a provider to try it with.
//
// The names of events, fields and header are Stripe's; put those of your provider there.
package payment

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Webhook answers the provider. It keeps nothing, and so may run in several processes: lastitem knows each payment, so
// an event that comes twice, late, or in another order is answered by what is true already. It answers 200 once the
// event has had its effect, and 503 to have it sent again.
type Webhook struct {
	Shop   string // the address of lastitem
	Secret string // that the provider signs with
	// Refund gives a payment back. The same payment may come again, so give the provider an idempotency key made of it.
	Refund func(ctx context.Context, payment string) error
}

// The events. If the buyer pays by a bank transfer, say, a session is completed before the money has come: then one of
// the last two follows.
const (
	completed      = "checkout.session.completed"
	expired        = "checkout.session.expired"
	asyncFailed    = "checkout.session.async_payment_failed"
	asyncSucceeded = "checkout.session.async_payment_succeeded"
)

// Session is a checkout, made for one reservation.
type Session struct {
	ID       string `json:"id"`
	Payment  string `json:"payment_intent"` // "" = nothing was to be paid
	Status   string `json:"payment_status"` // "unpaid", "paid" or "no_payment_required"
	Metadata struct {
		Reservation string `json:"reservation_id"`
	} `json:"metadata"` // what the shop said when it made the session
}

// Event is what the provider sends.
type Event struct {
	Type string `json:"type"`
	Data struct {
		Session Session `json:"object"`
	} `json:"data"`
}

// ServeHTTP takes an event.
func (h *Webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var e Event
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil || !h.signed(r.Header.Get("Stripe-Signature"), body) || json.Unmarshal(body, &e) != nil {
		http.Error(w, "not signed by the provider", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	if err := h.handle(ctx, e.Type, e.Data.Session); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

func (h *Webhook) handle(ctx context.Context, event string, s Session) error {
	switch {
	case s.Metadata.Reservation == "": // somebody else's: an account may have several shops
		return nil
	case event == completed && s.Status != "unpaid", event == asyncSucceeded:
		return h.paid(ctx, s)
	case event == expired, event == asyncFailed:
		return h.over(ctx, s)
	}
	return nil
}

// paid makes an order of the reservation, or gives the money back. Nothing but the answer decides that: without one, or
// with that of a proxy, it is unknown, and the same confirm must be sent again.
func (h *Webhook) paid(ctx context.Context, s Session) error {
	said, err := h.post(ctx, s.Metadata.Reservation, "confirm", cmp.Or(s.Payment, s.ID))
	switch {
	case err != nil:
		return err
	case string(said.Refund) == "false": // an order; or the payment had its end at another reservation
		return nil
	case string(said.Refund) != "true":
		return fmt.Errorf("payment %s: nothing is decided yet", s.Payment)
	case s.Payment == "":
		return nil
	}
	return h.Refund(ctx, s.Payment)
}

// over gives the units back, unless they are an order's by now.
func (h *Webhook) over(ctx context.Context, s Session) error {
	said, err := h.post(ctx, s.Metadata.Reservation, "cancel", "")
	if err == nil && said.State == "" && said.Code != "unknown_reservation" {
		err = fmt.Errorf("reservation %s: nothing is decided yet", s.Metadata.Reservation)
	}
	return err
}

// answer is the part of lastitem's answers that decides.
type answer struct {
	State  string          `json:"state"` // of the reservation, whatever the answer
	Code   string          `json:"code"`
	Refund json.RawMessage `json:"refund"` // true, false or "unknown"
}

func (h *Webhook) post(ctx context.Context, reservation, verb, key string) (said answer, err error) {
	to, err := url.JoinPath(h.Shop, "reservations", url.PathEscape(reservation), verb)
	if err != nil {
		return said, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, http.NoBody)
	if err != nil {
		return said, err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return said, err
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&said); err != nil {
		return said, fmt.Errorf("%s: %s without an answer of the shop: %w", verb, res.Status, err)
	}
	return said, nil
}

// signed says whether the provider sent this within the last minutes. The provider signs each try again. A header may
// carry two signatures while a secret is being replaced.
func (h *Webhook) signed(header string, body []byte) bool {
	var at string
	var sums [][]byte
	for part := range strings.SplitSeq(header, ",") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "t":
			at = value
		case "v1":
			sum, _ := hex.DecodeString(value)
			sums = append(sums, sum)
		}
	}
	sent, err := strconv.ParseInt(at, 10, 64)
	if err != nil || time.Since(time.Unix(sent, 0)).Abs() > 5*time.Minute {
		return false
	}
	want := sign(h.Secret, at, body)
	return slices.ContainsFunc(sums, func(sum []byte) bool { return hmac.Equal(sum, want) })
}

func sign(secret, at string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, at+".")
	_, _ = mac.Write(body)
	return mac.Sum(nil)
}
