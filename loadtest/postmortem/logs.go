// Package postmortem judges what has happened already, from files: a shop's orders, readings of its stock, and what its
// clients saw, as a load generator or a gateway has written it.
//
// [Read] makes [Logs] of the files, row by row; [Logs.Judge] makes them the judge's input and returns a [Result]: the
// judge's report, since when it was so, and which pattern it is. There are no rules here about what is right: those are
// of package judge, and this package says what the files cannot show.
package postmortem

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/target"
)

// Options say which files there are, and how they are meant.
type Options struct {
	Orders, StockLog, History string // paths; "" = there is no such file

	Stock      *int64            // units that there were to sell in all; nil = the first reading, and what was added
	StockAfter *int64            // units that are left; nil = the last reading
	Product    string            // judged alone; "" = the files are about one
	Label      string            // of the requests that buy; "" = the history has no others
	Columns    map[string]string // by role: the column
	Zone       *time.Location    // of times without one
	States     []string          // of orders that count; nil = all
	Answers    target.Foreign    // what the statuses and bodies of the history mean

	NeverRestocked bool // where the stock rises, somebody has overwritten it
	Lang           string

	Progress func(file string, rows int) // called now and then; nil = not called
}

// File is what was read of a file.
type File struct {
	Name    string    `json:"name"`
	Rows    int       `json:"rows"`
	First   time.Time `json:"first,omitzero"`
	Last    time.Time `json:"last,omitzero"`
	Columns []string  `json:"columns"`           // as in order=order_no
	Unused  []string  `json:"unused,omitempty"`  // columns that have no meaning here
	Skipped int       `json:"skipped,omitempty"` // rows of other products, or of orders that do not count
}

// Logs are what the files say.
type Logs struct {
	o       Options
	files   []File
	has     map[string]map[role]bool // by kind of file: the columns that are there
	orders  []api.Order
	states  []string // of the orders
	samples []sample
	ops     []judge.Op
	timed   bool // every request has both its times

	same   map[string]string        // texts that come again and again
	others map[role]map[string]bool // products, and labels of requests
}

// sample is a reading of the stock, and how much was put on sale by then since the one before.
type sample struct {
	at           time.Time
	stock, added int64
}

// Read reads the files. An error names the file, the line, the column and what is expected there.
func Read(o Options) (*Logs, error) {
	l := &Logs{o: o, has: map[string]map[role]bool{}, timed: true, same: map[string]string{},
		others: map[role]map[string]bool{rProduct: {}, rLabel: {}}}
	for _, f := range []struct {
		path, kind string
		of         []role
		must       role
		add        func(t *table, row [roles]string, at time.Time) error
	}{
		{o.Orders, "orders", ofOrders, roles, l.order}, {o.StockLog, "stock", ofStock, rStock, l.sample},
		{o.History, "history", ofOps, rOutcome, l.op},
	} {
		if f.path == "" {
			continue
		}
		if err := l.read(f.path, f.kind, f.of, f.must, f.add); err != nil {
			return nil, err
		}
	}
	for r, said := range map[role]string{rProduct: o.Product, rLabel: o.Label} {
		if names := slices.Sorted(maps.Keys(l.others[r])); said == "" && len(names) > 1 {
			return nil, text.Of("%d values of %s: %s; say which is meant by --%[2]s").Errorf(len(names), roleNames[r],
				strings.Join(names[:min(len(names), 5)], ", "))
		}
	}
	for name := range o.Columns {
		if r := slices.Index(roleNames[:], name); r < 0 || !slices.ContainsFunc(slices.Collect(maps.Values(l.has)),
			func(has map[role]bool) bool { return has[role(r)] }) {
			return nil, text.Of("--columns %s=%s: no file has it; the names on the left are %s").Errorf(name, o.Columns[name],
				strings.Join(roleNames[:], ", "))
		}
	}
	slices.SortStableFunc(l.samples, func(a, b sample) int { return a.at.Compare(b.at) })
	slices.SortStableFunc(l.ops, func(a, b judge.Op) int { return cmp.Compare(a.Call, b.Call) })
	return l, nil
}

// every is after how many rows progress is told.
const every = 1 << 17

// read reads one file, and calls add for each of its rows that is about the product.
func (l *Logs) read(path, kind string, of []role, must role,
	add func(t *table, row [roles]string, at time.Time) error) error {
	t, file, err := openTable(path, of, l.o.Columns)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info := File{Name: path}
	for {
		row, err := t.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if must != roles && !t.there[must] {
			return text.Of("%s has no column %s: --columns %[2]s=NAME names it, one of %[3]s").Errorf(path, roleNames[must],
				strings.Join(slices.Sorted(maps.Keys(t.unknown)), ", "))
		}
		var at time.Time
		if said := row[rTime]; said != "" {
			var ok bool
			if at, ok = timeOf(said, l.o.Zone); !ok {
				return t.wrong(rTime, said, wantTime)
			}
		}
		if l.o.Progress != nil && t.rows%every == 0 {
			l.o.Progress(path, t.rows)
		}
		if !l.concerns(kind, row) {
			info.Skipped++
			continue
		}
		if info.First.IsZero() || !at.IsZero() && at.Before(info.First) {
			info.First = at
		}
		if at.After(info.Last) {
			info.Last = at
		}
		if err := add(t, row, at); err != nil {
			return err
		}
	}
	info.Rows, l.has[kind] = t.rows, t.there
	for _, r := range of {
		if t.there[r] {
			info.Columns = append(info.Columns, roleNames[r]+"="+t.columns[r])
			delete(t.unknown, t.columns[r])
		}
	}
	info.Unused = slices.Sorted(maps.Keys(t.unknown))
	l.files = append(l.files, info)
	return nil
}

// concerns says whether a row is about the product, and an order stands.
func (l *Logs) concerns(kind string, row [roles]string) bool {
	for i, r := range []role{rProduct, rLabel} {
		if said := []string{l.o.Product, l.o.Label}[i]; row[r] != "" && said != "" && row[r] != said {
			return false
		}
		if row[r] != "" && len(l.others[r]) < 1<<10 {
			l.others[r][l.once(row[r])] = true
		}
	}
	return kind != "orders" || l.o.States == nil || slices.Contains(l.o.States, row[rState])
}

// once is a text that comes in many rows, kept once.
func (l *Logs) once(said string) string {
	if kept, there := l.same[said]; there {
		return kept
	}
	if len(l.same) > 1<<16 { // they are all different
		return strings.Clone(said)
	}
	said = strings.Clone(said)
	l.same[said] = said
	return said
}

// numbers are the units in a row: the quantity, 1 where there is none, and what remained.
func (l *Logs) numbers(t *table, row [roles]string) (quantity int64, remaining *int64, err error) {
	quantity = 1
	if said := row[rQuantity]; said != "" {
		n, ok := unitsOf(said)
		if quantity = n; !ok || n < 1 {
			return 0, nil, t.wrong(rQuantity, said, wantMore)
		}
	}
	if said := row[rRemaining]; said != "" {
		n, ok := unitsOf(said)
		if !ok {
			return 0, nil, t.wrong(rRemaining, said, wantUnit)
		}
		remaining = &n
	}
	return quantity, remaining, nil
}

// order takes in a row of the orders.
func (l *Logs) order(t *table, row [roles]string, at time.Time) error {
	quantity, remaining, err := l.numbers(t, row)
	if err != nil {
		return err
	}
	l.orders = append(l.orders, api.Order{OrderID: strings.Clone(row[rOrder]), Quantity: quantity, Remaining: remaining,
		Key: strings.Clone(row[rKey]), Replica: l.once(row[rReplica]), CreatedAt: at, Mode: target.ServiceName,
		Store: target.ForeignStore})
	if t.there[rState] {
		l.states = append(l.states, l.once(row[rState]))
	}
	return nil
}

// sample takes in a reading of the stock.
func (l *Logs) sample(t *table, row [roles]string, at time.Time) error {
	s := sample{at: at}
	for _, x := range []struct {
		r    role
		into *int64
	}{{rStock, &s.stock}, {rAdded, &s.added}} {
		said := row[x.r]
		n, ok := unitsOf(said)
		if !ok && (said != "" || x.r == rStock) {
			return t.wrong(x.r, said, wantUnit)
		}
		*x.into = n
	}
	l.samples = append(l.samples, s)
	return nil
}

// op takes in a request. Its times are in nanoseconds since 1970.
func (l *Logs) op(t *table, row [roles]string, at time.Time) error {
	quantity, remaining, err := l.numbers(t, row)
	if err != nil {
		return err
	}
	a, ok := answerOf(row[rOutcome], row[rBody], &l.o.Answers)
	if !ok {
		return t.wrong(rOutcome, row[rOutcome], wantWord)
	}
	end, told, err := l.end(t, row, at)
	if err != nil {
		return err
	}
	l.timed = l.timed && told && !at.IsZero()
	op := judge.Op{Call: at.UnixNano(), Return: end.UnixNano(), Outcome: a.Outcome, Code: a.Code, Quantity: quantity,
		OrderID: strings.Clone(cmp.Or(row[rOrder], a.OrderID)), Key: strings.Clone(row[rKey]), Buyer: l.once(row[rBuyer]),
		Remaining: remaining, Replica: l.once(row[rReplica])}
	if at.IsZero() {
		op.Call, op.Return = 0, 0
	}
	l.ops = append(l.ops, op)
	return nil
}

// end is when a request was answered, if the row tells it.
func (l *Logs) end(t *table, row [roles]string, at time.Time) (end time.Time, told bool, err error) {
	if said := row[rAnswered]; said != "" {
		if end, told = timeOf(said, l.o.Zone); !told {
			err = t.wrong(rAnswered, said, wantTime)
		}
		return end, told, err
	}
	ms, bad := time.ParseDuration(cmp.Or(row[rElapsed], "0") + "ms")
	if bad != nil {
		err = t.wrong(rElapsed, row[rElapsed], wantMS)
	}
	return at.Add(ms), row[rElapsed] != "", err
}

// added are the units that were put on sale meanwhile, as the stock log says.
func (l *Logs) added() (units int64) {
	for _, s := range l.samples[min(1, len(l.samples)):] {
		units += s.added
	}
	return units
}
