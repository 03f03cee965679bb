package handler

import (
	"net/http"
	"strings"
)

// Limits of PUT .../stock.
const (
	maxStock    = 1_000_000_000
	maxSegments = 1000
)

// stockLevel is the input of PUT .../stock. There is no default for the stock: a body that was lost on the way must not
// sell the shop empty.
type stockLevel struct{ units, segments int64 }

// The fields of a stockLevel, as indices into stockLevelNames.
const (
	fieldUnits = iota
	fieldSegments
)

var stockLevelNames = []string{"stock", "segments"}

// names lists the fields a client may send.
func (s *stockLevel) names() []string { return stockLevelNames }

// take checks and keeps one field.
func (s *stockLevel) take(i int, v value) (err error) {
	if i == fieldUnits {
		s.units, err = v.integer(stockLevelNames[i], 0, maxStock)
	} else {
		s.segments, err = v.integer(stockLevelNames[i], 0, maxSegments)
	}
	return err
}

// readStockLevel reads and checks the input of PUT .../stock, which is in the body; a query is refused.
func readStockLevel(r *http.Request, w http.ResponseWriter) (stockLevel, error) {
	var s stockLevel
	if strings.Trim(r.URL.RawQuery, "&") != "" {
		return s, invalid("query", "must be empty: "+strings.Join(stockLevelNames, " and ")+" belong in the body")
	}
	in := decoder{target: &s}
	if err := in.read(r, w); err != nil {
		return s, err
	}
	if !in.given(fieldUnits) {
		return s, invalid("stock", "is missing")
	}
	return s, nil
}

// nothing is the input of a path that has no fields.
type nothing struct{}

// names lists the fields a client may send.
func (nothing) names() []string { return nil }

// take is never called.
func (nothing) take(int, value) error { return nil }

// inquiry is the input of GET /products/{id}/audit: the language of its sentences, "" = English.
type inquiry struct{ lang string }

var inquiryNames = []string{"lang"}

// names lists the fields a client may send.
func (q *inquiry) names() []string { return inquiryNames }

// take checks and keeps one field.
func (q *inquiry) take(i int, v value) (err error) {
	if q.lang, err = v.word(inquiryNames[i]); err == nil && q.lang != "en" && q.lang != "zh" {
		err = invalid(inquiryNames[i], "must be en or zh")
	}
	return err
}

// Limits of a page of rows.
const (
	defaultLimit = 1000
	maxLimit     = 1000
	maxCursor    = 4096 // bytes
)

// rows is the input of GET /products/{id}/orders and /ledger: it selects a page.
type rows struct {
	limit  int64
	cursor string
}

// The fields of rows, as indices into rowsNames.
const (
	fieldLimit = iota
	fieldCursor
)

var rowsNames = []string{"limit", "cursor"}

// names lists the fields a client may send.
func (p *rows) names() []string { return rowsNames }

// take checks and keeps one field. The content of a cursor is checked when it is decoded.
func (p *rows) take(i int, v value) (err error) {
	if i == fieldLimit {
		p.limit, err = v.integer(rowsNames[i], 1, maxLimit)
		return err
	}
	if p.cursor, err = v.word(rowsNames[i]); err == nil && p.cursor == "" {
		err = invalid(rowsNames[i], "is empty")
	}
	return err
}

// readQuery reads and checks the query of a path without a body.
func readQuery(r *http.Request, t target) error {
	in := decoder{target: t}
	return in.pairs("query", r.URL.RawQuery)
}

// look is the input of GET /products/{id}: by which mode to read, "" = by none, without a lock.
type look struct {
	mode   string
	waitMS int64
}

// The fields of a look, as indices into lookNames.
const (
	fieldLookMode = iota
	fieldLookWait
)

var lookNames = []string{"mode", "wait_ms"}

// names lists the fields a client may send.
func (l *look) names() []string { return lookNames }

// take checks and keeps one field. Package shop checks whether there is such a mode, and whether it has a lock for
// readers.
func (l *look) take(i int, v value) (err error) {
	if i == fieldLookWait {
		l.waitMS, err = v.integer(lookNames[i], 0, MaxWaitMS)
		return err
	}
	if l.mode, err = v.word(lookNames[i]); err == nil && l.mode == "" {
		err = invalid(lookNames[i], "is empty")
	}
	return err
}

// readLook reads and checks the query of GET /products/{id}. A body means nothing there.
func readLook(r *http.Request) (look, error) {
	l := look{waitMS: defaultWaitMS}
	in := decoder{target: &l}
	if err := in.pairs("query", r.URL.RawQuery); err != nil {
		return l, err
	}
	if in.given(fieldLookWait) && l.mode == "" {
		return l, invalid(lookNames[fieldLookWait], "needs a mode: without one nothing is waited for")
	}
	return l, nil
}
