package console

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/contract/api"
)

const (
	mostPages = 40               // of the orders, and of the reservations of a store, that are read
	mostRows  = 100              // of each list that a browser gets
	askWithin = 75 * time.Second // as nginx.conf has it
)

// Shelf is the body of GET /console/api/products/{id}: a product with its newest rows that have all words of a search.
type Shelf struct {
	Ledger       api.Ledger         `json:"ledger"` // without the token what the shop tells everybody: no keys
	Reservations []api.Reservations `json:"reservations"`
	Found        [3]int             `json:"found"` // how many reservations, orders and keys have the words
	More         bool               `json:"more"`  // the product has more rows than were read
	Acts         bool               `json:"acts"`  // the reader has the token
}

// Act is the body of POST /console/api/products/{id}/acts: a request of the contract, made by hand.
type Act struct {
	Do   string          `json:"do"` // "hold", "confirm", "cancel", "return", "adjust" or "look"
	Of   string          `json:"of"` // the mode, the reservation or the order
	Key  string          `json:"key"`
	With json.RawMessage `json:"with,omitempty"` // its body
}

// Done says what became of an [Act]. After [api.Unknown] it may be repeated, with its key.
type Done struct {
	Happened api.Happened    `json:"happened"` // "" = it did
	Lost     string          `json:"lost,omitempty"`
	Replica  string          `json:"replica,omitempty"`
	Replayed bool            `json:"replayed,omitempty"`
	Said     json.RawMessage `json:"said,omitempty"`
}

// products reads the products of a shop, and acts on them.
type products struct {
	url, token string
	client     *http.Client
	turn       chan struct{} // one product is read at a time, for all browsers
}

func newProducts(url, token string, client *http.Client) *products {
	return &products{url: url, token: token, client: client, turn: make(chan struct{}, 1)}
}

// shelf reads a product, with the token or without it, and keeps the rows that have all words of a search.
func (p *products) shelf(ctx context.Context, product, search string, token bool) (*Shelf, error) {
	id, err := strconv.ParseInt(product, 10, 64)
	if err != nil {
		return nil, invalid{err}
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s := &Shelf{Acts: token, Reservations: []api.Reservations{}}
	if err := p.read(ctx, id, s); err != nil {
		return nil, err
	}
	s.search(strings.Fields(strings.ToLower(search)))
	return s, nil
}

// read reads the rows of a product, the newest first.
func (p *products) read(ctx context.Context, id int64, s *Shelf) (err error) {
	path := fmt.Sprintf("/products/%d/%s?limit=1000", id, map[bool]string{true: "ledger", false: "orders"}[s.Acts])
	s.More, err = pages(ctx, p, s.Acts, path, func(l api.Ledger) string {
		orders, keys := slices.Concat(s.Ledger.Orders, l.Orders), slices.Concat(s.Ledger.Keys, l.Keys)
		if s.Ledger.ProductID == 0 {
			s.Ledger = l
		}
		s.Ledger.Orders, s.Ledger.Keys = orders, keys
		return l.NextCursor
	})
	slices.SortStableFunc(s.Ledger.Orders, func(a, b api.Order) int { return b.CreatedAt.Compare(a.CreatedAt) })
	slices.SortStableFunc(s.Ledger.Keys, func(a, b api.KeyRow) int { return b.CreatedAt.Compare(a.CreatedAt) })
	for _, store := range []api.Store{api.Redis, api.SQL} { // etcd has no reservations
		if _, there := s.Ledger.Initial[store]; err != nil || !s.Acts || !there {
			continue
		}
		var all api.Reservations
		var more bool
		path = fmt.Sprintf("/products/%d/reservations?store=%s", id, store)
		more, err = pages(ctx, p, true, path, func(r api.Reservations) string {
			rows := slices.Concat(all.Rows, r.Rows)
			if all.ProductID == 0 {
				all = r
			}
			all.Rows = rows
			return r.NextCursor
		})
		slices.SortStableFunc(all.Rows, func(a, b api.ReservationRow) int {
			return cmp.Compare(b.ChangedMicros, a.ChangedMicros)
		})
		s.Reservations, s.More = append(s.Reservations, all), s.More || more
	}
	return err
}

// pages reads a list of the shop to its end, or as many pages as are read; add returns the cursor of the next one.
func pages[T any](ctx context.Context, p *products, token bool, path string, add func(T) string) (more bool,
	err error) {
	for n, at := 0, path; n < mostPages; n++ {
		status, _, body, err := p.ask(ctx, http.MethodGet, at, nil, "", token)
		var page T
		var said api.Problem
		switch {
		case err != nil:
			return false, err
		case status == http.StatusUnauthorized && !token:
			return false, errNoSession
		case status != http.StatusOK && json.Unmarshal(body, &said) == nil && said.Code == api.UnknownProduct:
			return false, errNotFound
		case status != http.StatusOK:
			return false, fmt.Errorf("GET %s: %d %s", at, status, cmp.Or(said.Detail, said.Title))
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return false, err
		}
		cursor := add(page)
		if cursor == "" {
			return false, nil
		}
		at = path + "&cursor=" + url.QueryEscape(cursor)
	}
	return true, nil
}

// ask sends a request to the shop.
func (p *products) ask(ctx context.Context, method, path string, body []byte, key string, token bool) (status int,
	header http.Header, said []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set(api.HeaderKey, key)
	}
	if token {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	res, err := p.client.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	said, err = io.ReadAll(io.LimitReader(res.Body, maxEvent))
	return res.StatusCode, res.Header, said, err
}

// search keeps the rows that have all words, at most mostRows of each list.
func (s *Shelf) search(words []string) {
	for i := range s.Reservations {
		var n int
		s.Reservations[i].Rows, n = having(s.Reservations[i].Rows, words, func(r api.ReservationRow) string {
			text := fmt.Sprint(r.ReservationID, " ", r.Key, " ", r.Mode, " ", r.Buyer, " ", r.State)
			for _, p := range r.Payments {
				text += fmt.Sprint(" ", p.Payment, " ", p.OrderID, p.Outcome)
			}
			return text
		})
		s.Found[0] += n
	}
	s.Ledger.Orders, s.Found[1] = having(s.Ledger.Orders, words, func(o api.Order) string {
		return fmt.Sprint(o.OrderID, " ", o.Key, " ", o.ReservationID, " ", o.Mode, " ", o.Store)
	})
	s.Ledger.Keys, s.Found[2] = having(s.Ledger.Keys, words, func(k api.KeyRow) string {
		return fmt.Sprint(k.Key, " ", k.Mode, " ", k.Status)
	})
}

// having returns the first rows whose text has all words, and how many have them.
func having[T any](rows []T, words []string, text func(T) string) (first []T, found int) {
	first = []T{}
	for _, row := range rows {
		said := strings.ToLower(text(row))
		if slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(said, word) }) {
			continue
		}
		if found++; found <= mostRows {
			first = append(first, row)
		}
	}
	return first, found
}

// act sends the request of an act. It waits for the answer even if the browser leaves.
func (p *products) act(ctx context.Context, product string, a Act) (Done, error) {
	product, of := "/products/"+url.PathEscape(product), url.PathEscape(a.Of)
	path := map[string]string{
		"hold": "/reserve_stock/" + of, "confirm": "/reservations/" + of + "/confirm",
		"cancel": "/reservations/" + of + "/cancel", "return": product + "/orders/" + of + "/return",
		"adjust": product + "/adjust", "look": product + "/reconcile",
	}[a.Do]
	if path == "" {
		return Done{}, errNotFound
	}
	wants := a.Do == "return" || a.Do == "adjust" || a.Do == "look"
	status, header, said, err := p.ask(context.WithoutCancel(ctx), http.MethodPost, path, a.With, a.Key, wants)
	d := Done{Happened: api.Unknown, Replica: header.Get(api.HeaderReplica),
		Replayed: header.Get(api.HeaderReplayed) != ""}
	var problem api.Problem
	switch {
	case err != nil:
		d.Lost = err.Error()
	case status/100 == 2 && json.Valid(said):
		d.Happened, d.Said = "", said
	case json.Unmarshal(said, &problem) == nil && api.Codes[problem.Code].Status == status:
		d.Happened, d.Said = problem.Happened, said
	default:
		d.Lost = fmt.Sprint(status, " ", http.StatusText(status))
	}
	return d, nil
}
