package postmortem

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"lastitem/say/text"
	"lastitem/target"
)

// role is what a column is about.
type role int

const (
	rOrder role = iota
	rQuantity
	rKey
	rTime
	rAnswered
	rElapsed
	rBuyer
	rProduct
	rRemaining
	rReplica
	rState
	rOutcome
	rBody
	rStock
	rAdded
	rLabel
	roles
)

// role names are those of --columns; each has the names under which the column is found, in lower case, the best first.
var (
	roleNames = [roles]string{"order", "quantity", "key", "time", "answered", "elapsed", "buyer", "product", "remaining",
		"replica", "state", "outcome", "body", "stock", "added",
		"label"}
	known = [roles][]string{
		rOrder:    slices.Concat([]string{"order"}, target.IDNames),
		rQuantity: target.QuantityNames,
		rKey:      target.KeyNames,
		rTime: {"time", "sent", "start_time", "started_at", "created_at", "createdat", "ordered_at", "order_time",
			"timestamp",
			"ts", "at", "date", "created"},
		rAnswered:  {"answered", "answered_at", "end_time", "ended_at", "finished_at"},
		rElapsed:   {"elapsed", "elapsed_ms", "response_time", "duration_ms", "latency_ms"},
		rBuyer:     {"buyer", "buyer_id", "user", "user_id", "userid", "customer", "customer_id", "member_id"},
		rProduct:   {"product", "product_id", "productid", "sku", "item", "item_id", "goods_id"},
		rRemaining: {"remaining", "stock_after", "stock_left", "left"},
		rReplica:   {"replica", "host", "hostname", "instance", "pod", "server"},
		rState:     {"state", "status", "order_status", "order_state"},
		rOutcome:   {"outcome", "responsecode", "response_code", "http_status", "status", "status_code", "result", "success"},
		rBody:      {"body", "response", "response_body"},
		rStock:     {"stock", "count", "available", "on_hand", "inventory", "quantity", "qty"},
		rAdded:     {"added", "restocked"},
		rLabel:     {"label", "name"},
	}
)

// What each kind of file may have, and must.
var (
	ofOrders = []role{rOrder, rQuantity, rKey, rTime, rBuyer, rProduct, rRemaining, rReplica, rState}
	ofStock  = []role{rTime, rStock, rProduct, rAdded}
	ofOps    = []role{rTime, rAnswered, rElapsed, rOutcome, rOrder, rQuantity, rKey, rBuyer, rProduct, rRemaining,
		rReplica,
		rBody, rLabel}
)

// table reads a file row by row: CSV with a line of heads, or a JSON object in each line.
type table struct {
	name  string
	of    []role
	named map[string]string // by role: the column, as the user says

	columns [roles]string   // the name of the column that a role has
	there   map[role]bool   // whether any row has had the role
	unknown map[string]bool // columns that no role has
	rows    int

	csv   *csv.Reader // nil = lines of JSON
	lines *bufio.Reader
	line  int
	place [roles]int // of CSV: the column's place; -1 = none
}

// openTable opens a file. Whoever reads it to its end closes it.
func openTable(path string, of []role, named map[string]string) (*table, io.Closer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	t := &table{name: path, of: of, named: named, there: map[role]bool{}, unknown: map[string]bool{}}
	in := bufio.NewReaderSize(f, 1<<16)
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		_, _ = in.Discard(3)
	}
	first, _ := in.Peek(4096)
	switch begin := bytes.TrimSpace(first); {
	case len(begin) == 0:
		err = text.Of("%s is empty: want CSV with a line of heads, or a JSON object in each line").Errorf(path)
	case begin[0] == '[':
		err = text.Of("%s is one JSON array: want an object in each line, as jq -c '.[]' writes them").Errorf(path)
	case begin[0] == '<':
		err = text.Of("%s is XML: want CSV, which JMeter writes with jmeter.save.saveservice.output_format=csv").Errorf(path)
	case begin[0] == '{':
		t.lines = in
	default:
		err = t.openCSV(in, begin)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return t, f, nil
}

// openCSV reads the heads. The separator is what the line of heads has most of: comma, semicolon or tab.
func (t *table) openCSV(in io.Reader, begin []byte) error {
	heads, _, _ := bytes.Cut(begin, []byte("\n"))
	t.csv = csv.NewReader(in)
	t.csv.ReuseRecord, t.csv.TrimLeadingSpace = true, true
	for _, other := range []string{";", "\t"} {
		if bytes.Count(heads, []byte(other)) > bytes.Count(heads, []byte(string(t.csv.Comma))) {
			t.csv.Comma = rune(other[0])
		}
	}
	found, err := t.csv.Read()
	if err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	places := map[string]int{}
	for i, name := range found {
		places[strings.ToLower(strings.TrimSpace(name))] = i
	}
	got := t.columnsOf(slices.Collect(maps.Keys(places)))
	for r := range roles {
		if t.place[r] = -1; got[r] != "" {
			t.place[r] = places[got[r]]
		}
	}
	return nil
}

// columnsOf gives each role of the file its column, and notes the columns that are left.
func (t *table) columnsOf(names []string) (got [roles]string) {
	taken := map[string]bool{}
	for _, r := range t.of {
		candidates := known[r]
		if said := t.named[roleNames[r]]; said != "" {
			candidates = []string{strings.ToLower(said)}
		}
		for _, name := range candidates {
			if slices.Contains(names, name) && !taken[name] {
				got[r], taken[name], t.there[r], t.columns[r] = name, true, true, name
				break
			}
		}
	}
	for _, name := range names {
		if !taken[name] {
			t.unknown[name] = true
		}
	}
	return got
}

// next is the next row, by role; "" = it does not have it. At the end it is [io.EOF].
func (t *table) next() (row [roles]string, err error) {
	if t.csv == nil {
		return t.nextLine()
	}
	fields, err := t.csv.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return row, io.EOF
		}
		return row, fmt.Errorf("%s: %w", t.name, err)
	}
	t.rows++
	t.line, _ = t.csv.FieldPos(0)
	for _, r := range t.of {
		if t.place[r] >= 0 {
			row[r] = fields[t.place[r]]
		}
	}
	return row, nil
}

// nextLine is next of a file with a JSON object in each line.
func (t *table) nextLine() (row [roles]string, err error) {
	var line []byte
	for len(line) == 0 {
		line, err = t.lines.ReadBytes('\n')
		t.line++
		if line = bytes.TrimSpace(line); err != nil && len(line) == 0 {
			return row, io.EOF
		}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(line, &object); err != nil {
		return row, text.Of("%s, line %d: want a JSON object: %w").Errorf(t.name, t.line, err)
	}
	t.rows++
	values := make(map[string]string, len(object))
	for name, v := range object {
		var s string
		if json.Unmarshal(v, &s) != nil {
			s = string(v)
		}
		values[strings.ToLower(name)] = s
	}
	for r, name := range t.columnsOf(slices.Collect(maps.Keys(values))) {
		if v := values[name]; v != "null" {
			row[r] = v
		}
	}
	return row, nil
}

// wrong is the error of a value that is not what its column must have.
func (t *table) wrong(r role, said string, want text.Text) error {
	return text.Of("%s, line %d, column %s: %q; want %s").Errorf(t.name, t.line, t.columns[r], said, want)
}
