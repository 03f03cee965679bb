package payment

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Provider is a payment provider as a webhook sees it: it sends an event until it is taken, and sends some again, late
// and in any order. It takes no money.
type Provider struct {
	Webhook, Secret string // the address of the webhook, and what events are signed with

	money sync.Map // by payment: "kept" or "back"
}

// Send sends an event of a session, and again until it is answered 200; after five other answers it gives up.
func (p *Provider) Send(ctx context.Context, event string, s Session) (err error) {
	if s.Status == "paid" {
		p.money.LoadOrStore(s.Payment, "kept")
	}
	e := Event{Type: event}
	e.Data.Session = s
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	for try := range 5 {
		time.Sleep(time.Duration(try) * 100 * time.Millisecond)
		status, failed := p.post(ctx, body, time.Now())
		if failed == nil && status == http.StatusOK {
			return nil
		}
		err = errors.Join(failed, fmt.Errorf("%s of %s was answered %d", event, s.ID, status))
	}
	return err
}

// Storm sends each event of a session twice, all at once, in any order.
func (p *Provider) Storm(ctx context.Context, s Session, events ...string) (err error) {
	all := slices.Concat(events, events)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	sent := make(chan error)
	for _, event := range all {
		go func() { sent <- p.Send(ctx, event, s) }()
	}
	for range all {
		err = errors.Join(err, <-sent)
	}
	return err
}

// post sends a body that was signed at a time.
func (p *Provider) post(ctx context.Context, body []byte, at time.Time) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Webhook, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	second := strconv.FormatInt(at.Unix(), 10)
	req.Header.Set("Stripe-Signature", "t="+second+",v1="+hex.EncodeToString(sign(p.Secret, second, body)))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// Refund gives a payment back, once: as with an idempotency key.
func (p *Provider) Refund(_ context.Context, payment string) error {
	p.money.Store(payment, "back")
	return nil
}

// Money says where the money of a payment is: "kept" by the shop, or "back" at its buyer; "" = it was not paid.
func (p *Provider) Money(payment string) string {
	where, _ := p.money.Load(payment)
	word, _ := where.(string)
	return word
}
