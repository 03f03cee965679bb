package target

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/redact"
	"lastitem/say/text"
)

// Shop is lastitem at an address: its modes, the stock of its products, their ledgers and reservations. It is safe for
// concurrent use.
type Shop struct {
	URL    string       // its address, without a slash at its end
	Token  string       // the admin token; "" = none
	Client *http.Client // nil = [http.DefaultClient]

	maxRows int // of a ledger; 0 = maxLedger
}

// A call is bounded in time, and a ledger in rows.
const (
	callTimeout = 60 * time.Second // a page of a ledger takes less than a second
	maxLedger   = 10_000_000       // rows
)

// ErrUnauthorized is returned by [Shop.SetStock], wrapped, if the token is missing or wrong.
var ErrUnauthorized = text.Of("the service wants its admin token").Errorf()

// NewShop returns the service at an address, http or https. Without its admin token the modes and the ledgers can be
// read, but no stock can be set.
func NewShop(address, token string) (*Shop, error) {
	u, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: callTimeout, Transport: NewTransport(false)}
	return &Shop{URL: strings.TrimRight(u.String(), "/"), Token: token, Client: client}, nil
}

// ParseAddress reads the address of a service: http or https, with a host.
func ParseAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, text.Of("--url must be a URL like http://127.0.0.1:8080, not %q").Errorf(redact.Address(address))
	}
	return u, nil
}

// Close closes the idle connections.
func (s *Shop) Close() { s.client().CloseIdleConnections() }

func (s *Shop) client() *http.Client { return cmp.Or(s.Client, http.DefaultClient) }

// Call is the request of an [Ask], with the token where the contract wants it.
func (s *Shop) Call(a Ask) Call {
	c := a.Call()
	if a.Kind == judge.Return || a.Kind == judge.Adjust {
		c.Headers = s.authorization()
	}
	return c
}

func (s *Shop) authorization() [][2]string {
	if s.Token == "" {
		return nil
	}
	return [][2]string{{"Authorization", "Bearer " + s.Token}}
}

// Modes returns the registry, in teaching order, without the essays.
func (s *Shop) Modes(ctx context.Context) ([]api.Mode, error) {
	var modes api.Modes
	err := s.get(ctx, "/modes", &modes)
	return modes.Modes, err
}

// Product returns the stock of a product in every store.
func (s *Shop) Product(ctx context.Context, product int64) (api.Product, error) {
	var p api.Product
	err := s.get(ctx, productPath(product, ""), &p)
	return p, err
}

// SetStock creates or resets the product: stock in every store, no orders, no locks, no keys. It needs the admin token.
func (s *Shop) SetStock(ctx context.Context, product int64, to api.SetStock) error {
	_, err := s.do(ctx, Call{Method: http.MethodPut, Path: productPath(product, "/stock"), ContentType: jsonType,
		Body: encoded(to)})
	return err
}

// Ticket returns what has become of a ticket, after at most wait while it is queued. One that is not there, or no more,
// has the state "".
func (s *Shop) Ticket(ctx context.Context, id string, wait time.Duration) (t api.Ticket, err error) {
	err = s.get(ctx, fmt.Sprintf("/tickets/%s?wait_ms=%d", url.PathEscape(id), wait.Milliseconds()), &t)
	if p, refused := errors.AsType[*ProblemError](err); refused && p.Problem.Code == api.UnknownTicket {
		return api.Ticket{TicketID: id}, nil
	}
	return t, err
}

// adjustTries is how often an adjustment is sent whose outcome is not known.
const adjustTries = 3

// Adjust adds units to the stock of a product while it is sold, or takes free ones, once for each key: sent again, it
// is answered as the first time; "" = a new key. It needs the admin token. After a [ProblemError] that says so nothing
// was changed; after an error without an answer nobody knows, and it can be repeated with the same key.
func (s *Shop) Adjust(ctx context.Context, product int64, by api.Adjust, key string) (done api.Adjusted, err error) {
	c := Ask{Kind: judge.Adjust, Product: product, Quantity: by.Delta, Reason: by.Reason, Store: by.Store,
		Key: cmp.Or(key, rand.Text())}.Call()
	for try := 1; ; try++ {
		said, err := s.do(ctx, c)
		p, answered := errors.AsType[*ProblemError](err)
		switch {
		case err == nil:
			err = json.Unmarshal(said, &done)
			return done, err
		case try == adjustTries || answered && p.Problem.Happened != api.Unknown || !rest(ctx, settleEvery):
			return done, err
		}
	}
}

// Reconcile compares what Redis and SQL have of a product that is sold by tickets, and repairs the count in Redis if
// asked to. It needs the admin token.
func (s *Shop) Reconcile(ctx context.Context, product int64, repair bool) (r api.Reconciliation, err error) {
	said, err := s.do(ctx, Call{Method: http.MethodPost, Path: productPath(product, "/reconcile"), ContentType: jsonType,
		Body: encoded(map[string]bool{"repair": repair})})
	if err == nil {
		err = json.Unmarshal(said, &r)
	}
	return r, err
}

// get reads path into body.
func (s *Shop) get(ctx context.Context, path string, body any) error {
	said, err := s.do(ctx, Call{Method: http.MethodGet, Path: path})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(said, body); err != nil {
		return text.Of("GET %s: the answer is not that of lastitem: %w").Errorf(path, err)
	}
	return nil
}

// do sends a call and returns the body of its answer, or an error with advice.
func (s *Shop) do(ctx context.Context, c Call) ([]byte, error) {
	c.Headers = s.authorization()
	r, err := c.Send(ctx, s.client(), s.URL)
	if err != nil {
		return nil, unreached(c, err)
	}
	if r.Status/100 == 2 {
		return r.Body, nil
	}
	if r.Status == http.StatusUnauthorized {
		hint := text.Of("set SHOP_ADMIN_TOKEN or --token")
		if s.Token != "" {
			hint = text.Of("the one in SHOP_ADMIN_TOKEN or --token is another")
		}
		return nil, text.Of("%s %s: %w: %s").Errorf(c.Method, c.Path, ErrUnauthorized, hint)
	}
	var p api.Problem
	if !r.Problem || json.Unmarshal(r.Body, &p) != nil || p.Code == "" {
		return nil, text.Of("%s %s: %s; is that address lastitem's?").Errorf(c.Method, c.Path, StatusError(r.Status))
	}
	p.Detail = cmp.Or(p.Detail, p.Title)
	return nil, &ProblemError{Method: c.Method, Path: c.Path, Problem: p}
}

// unreached returns the error of a call without an answer, without the method, which net/http's error repeats.
func unreached(c Call, err error) error {
	if errors.Is(err, errTooLong) {
		return text.Of("%s %s: the answer has more than %d MiB; is that address lastitem's?").Errorf(c.Method, c.Path,
			maxAnswer>>20)
	}
	path, hint := c.Path, distrusted(err)
	if e, ok := errors.AsType[*url.Error](err); ok {
		path, err = e.URL, e.Err
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		hint = text.Of("; is a shop running there? 'shop up' starts one, --url names another")
	}
	return text.Of("%s %s: %w%s").Errorf(c.Method, path, err, hint)
}

// ProblemError is a problem document that the service returned.
type ProblemError struct {
	Method, Path string
	Problem      api.Problem
}

// Error gives the call and the answer.
func (e *ProblemError) Error() string {
	return fmt.Sprintf("%s %s: %d %s: %s", e.Method, e.Path, e.Problem.Status, e.Problem.Code, e.Problem.Detail)
}
