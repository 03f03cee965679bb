package judge

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"time"

	"lastitem/contract/api"
	"lastitem/contract/ledger"
	"lastitem/say/text"
)

// This file has the rules of time: at no moment was more taken than there was, and no refusal came while there must
// have been enough.

// skew is what the answers prove about the two clocks: clients' time − store's time, in nanoseconds, is between least
// and most. A change that was answered was stamped between the call and the answer. The store's clock ticks every tick
// microseconds, so a stamp may be so much older than the moment.
type skew struct {
	least, most, tick int64
	known             bool
}

const micro = int64(1000) // nanoseconds

// compareClocks finds the skew.
func (j *reservationJudge) compareClocks() {
	j.skew = skew{least: always, most: never, tick: 1}
	if !slices.ContainsFunc(j.book.Rows, func(row api.ReservationRow) bool {
		return slices.ContainsFunc(row.Events, func(e api.ReservationEvent) bool { return e.AtMicros%1000 != 0 })
	}) {
		j.skew.tick = 1000 // SQLite's
	}
	for _, op := range j.ops {
		now := map[ReservationKind]string{Reserve: held, Confirm: confirmed}[op.Kind]
		if now == "" || op.Outcome != OK {
			continue
		}
		for _, e := range j.rows[op.ReservationID].Events {
			if e.Now == now {
				j.skew.least = max(j.skew.least, op.Call-(e.AtMicros+j.skew.tick)*micro)
				j.skew.most = min(j.skew.most, op.Return-e.AtMicros*micro)
				j.skew.known = true
				break
			}
		}
	}
	for _, op := range j.ops {
		j.end = max(j.end, op.Return)
	}
	if j.skew.known { // if a clock was set, by whichever setting is later
		j.end = max(j.end, j.book.AsOfMicros*micro+max(j.skew.least, j.skew.most))
	}
	if j.skew.least > j.skew.most {
		j.skew.known = false
		j.skip(text.Of("a clock was set during the run, so no rule could use the times of the store"))
	}
}

// earliest and latest are when a moment of the store's clock was, by the clients' clock.
func (s skew) earliest(atMicros int64) int64 {
	if !s.known {
		return always
	}
	return atMicros*micro + s.least
}

func (s skew) latest(atMicros int64) int64 {
	if !s.known {
		return never
	}
	return (atMicros+s.tick)*micro + s.most
}

// change is units that are taken or given back, at a time of the clients' clock.
type change struct{ at, units int64 }

// taken are the units of one reservation: when it was called and answered, from when on they may have been free again,
// and from when on they certainly were. A call of always says that it may have been at any time.
type taken struct {
	buyer                            string
	units, call, answer, freed, free int64
	returned                         bool // of an order: the limit has room again, also where they were written off
}

// pairTakes pairs each reservation that was made with its release.
func (j *reservationJudge) pairTakes() {
	calls := map[string]int{} // to takes
	for _, op := range j.ops {
		row, there := j.rows[op.ReservationID]
		if _, seen := calls[op.ReservationID]; op.Kind != Reserve || op.Outcome != OK || seen || !there {
			continue
		}
		calls[op.ReservationID] = len(j.takes)
		j.takes = append(j.takes, taken{buyer: op.Buyer, // the service may have forgotten him
			units: row.Quantity, call: op.Call, answer: op.Return})
	}
	for id, row := range j.rows { // made by a request without an answer, or by somebody else
		if _, seen := calls[id]; !seen {
			calls[id] = len(j.takes)
			j.takes = append(j.takes, taken{buyer: row.Buyer, units: row.Quantity, call: always, answer: never})
		}
	}
	j.cancelled = map[string]int64{}
	for _, op := range j.ops {
		if at, seen := j.cancelled[op.ReservationID]; op.Kind == Cancel && (!seen || op.Call < at) {
			j.cancelled[op.ReservationID] = op.Call
		}
	}
	for id, i := range calls {
		j.takes[i].freed, j.takes[i].free = j.released(id)
		j.split(j.rows[id], i)
	}
	for _, op := range j.ops {
		i, seen := calls[op.ReservationID]
		row := j.rows[op.ReservationID]
		if seen && op.Outcome != Unknown && len(row.Orders) == 0 && (op.Expired && row.State == expired ||
			op.Kind == Cancel && op.Outcome == OK && row.State == cancelled && op.Part == 0 && !op.Line) {
			j.takes[i].free = min(j.takes[i].free, op.Return)
		}
	}
}

// split makes takes of their own of the units of a take that came back by parts, and of those that were returned.
func (j *reservationJudge) split(row api.ReservationRow, i int) {
	for _, e := range row.Events {
		if e.Was != held || e.Now != held || e.Quantity == 0 {
			continue
		}
		part := j.takes[i]
		part.units, part.freed, part.free = e.Quantity, j.skew.earliest(e.AtMicros), never
		for _, op := range j.ops {
			if op.Kind == Cancel && op.Part > 0 && op.Outcome == OK && op.ReservationID == row.ReservationID &&
				ledger.Digest([]byte(op.Key)) == e.Request {
				part.free = min(part.free, op.Return)
			}
		}
		j.takes = append(j.takes, part)
	}
	for _, o := range row.Orders {
		for _, r := range o.Returns {
			part := j.takes[i]
			if part.units, part.returned = r.Quantity, true; r.Restocked {
				part.freed = always
			}
			j.takes[i].units -= r.Quantity
			j.takes = append(j.takes, part)
		}
	}
}

// released says from when on a reservation's units may have been free again, and from when on they certainly were by
// the stamp of a sweep; never = not, or nobody knows, and always = nobody knows since when.
func (j *reservationJudge) released(id string) (freed, free int64) {
	row := j.rows[id]
	freed, free = never, never
	for _, e := range row.Events {
		if e.Now == cancelled && row.State == cancelled { // a client of the history may not have been the first to do it
			freed = min(freed, j.skew.earliest(e.AtMicros))
		}
		if e.Now != expired {
			continue
		}
		freed = j.skew.earliest(min(e.DeadlineMicros, e.AtMicros))
		// A late payment may have taken the units again.
		if e.CommittedMicros != 0 && row.State == expired && len(row.Orders) == 0 {
			free = j.skew.latest(e.CommittedMicros)
		}
	}
	switch {
	case row.State == void, (row.State == expired || row.State == cancelled) && freed == never:
		freed = always
	case row.State == cancelled && !j.skew.known:
		if at, asked := j.cancelled[id]; asked {
			freed = at
		}
	}
	return freed, free
}

// tooMuch looks for a moment at which more was taken than there was: all takes that had been answered, less all
// releases that may have begun; or the last moment, since a late payment takes released units again.
func (j *reservationJudge) tooMuch() {
	most, of := j.held+j.ordered+j.writtenOff, j.book.Initial
	if once := peak(j.takes, j.course.shifts); j.course.whole && once-j.course.set > most-of {
		most, of = once, j.course.set
	}
	if most > of {
		j.find('O')
		j.r.Oversold = max(j.r.Oversold, most-of)
		j.violate("O", sayTooMuch, most, of)
	}
}

// limit compares what each buyer had at once, and has, with the limit and with what is counted for it. Units that came
// back twice came back to the limit twice as well: a difference that they explain follows from O.
func (j *reservationJudge) limit() {
	if j.book.PerBuyer == 0 {
		return
	}
	has, by := map[string]int64{}, j.byBuyer()
	for _, row := range j.book.Rows {
		if row.State == held {
			has[row.Buyer] += row.Quantity
		}
		for _, o := range row.Orders {
			back, gone := o.Back() // what was written off too: he may buy again
			has[row.Buyer] += o.Quantity - back - gone
		}
	}
	for buyer := range by {
		has[buyer] += 0
	}
	for buyer := range j.book.BuyerUnits {
		has[buyer] += 0
	}
	j.leakedOf = map[string]int64{}
	for _, buyer := range slices.Sorted(maps.Keys(has)) {
		if buyer == "" {
			continue
		}
		if most := max(peak(by[buyer], nil), has[buyer]); most > j.book.PerBuyer {
			j.violate(j.unless('B', most-j.book.PerBuyer <= j.twice[buyer]),
				text.Of("a buyer had at least %d units, %d more than the limit of %d"), most, most-j.book.PerBuyer,
				j.book.PerBuyer)
		}
		counted := j.book.BuyerUnits[buyer]
		if j.leakedOf[buyer] = counted - has[buyer]; counted != has[buyer] {
			j.violate(j.unless('L', counted < has[buyer] && has[buyer]-counted <= j.twice[buyer]),
				text.Of("the limit counts %d units of a buyer who has %d"), counted, has[buyer])
		}
	}
}

// unless finds a letter that does not follow from O, and returns the one that implies what was seen.
func (j *reservationJudge) unless(letter byte, follows bool) (implied string) {
	if follows {
		return "O"
	}
	j.find(letter)
	return string(letter)
}

func (j *reservationJudge) byBuyer() map[string][]taken {
	by := map[string][]taken{}
	for _, t := range j.takes {
		if t.returned {
			t.freed = always
		}
		by[t.buyer] = append(by[t.buyer], t)
	}
	return by
}

// peak is the most that was surely taken at once, less what may have been added.
func peak(takes []taken, shifts []shift) (most int64) {
	var changes []change
	for _, s := range shifts {
		if s.units > 0 {
			changes = append(changes, change{s.call, -s.units})
		} else if s.answer != never {
			changes = append(changes, change{s.answer, -s.units})
		}
	}
	for _, t := range takes {
		if t.answer != never && t.freed > t.answer {
			changes = append(changes, change{t.answer, t.units}, change{t.freed, -t.units})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { // what is given at a moment is not taken at that moment
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.units, b.units))
	})
	n := int64(0)
	for _, c := range changes {
		n += c.units
		most = max(most, n)
	}
	return most
}

// refusals checks every sold_out and limit_reached. A refusal of q, called at c and answered at r, is justified if at
// some moment t in [c, r] there may have been less than q: initial, less every take that was called by t, plus every
// release that was certain before t.
func (j *reservationJudge) refusals() {
	all, by, buyers := shelfOf(j.takes, j.course.set, j.course.shifts...), j.byBuyer(), map[string]*shelf{}
	bad, excused, limits := 0, 0, 0
	for _, op := range j.ops {
		if op.Outcome != Refused || op.Replayed || j.purged(op) || op.Kind != Reserve && op.Kind != Adjust ||
			!op.Limit && !j.course.whole {
			continue
		}
		if op.Kind == Adjust {
			op.Quantity = -op.Quantity
		}
		from, leaked := all, j.leaked
		if op.Limit {
			if buyers[op.Buyer] == nil {
				buyers[op.Buyer] = shelfOf(by[op.Buyer], j.book.PerBuyer)
			}
			from, leaked = buyers[op.Buyer], j.leakedOf[op.Buyer]
		}
		switch least := from.fewest(op.Call, op.Return); {
		case least < op.Quantity:
		case least-leaked < op.Quantity:
			excused++
		case op.Limit:
			limits++
		default:
			bad++
		}
	}
	j.r.BadRefusals = bad + excused + limits
	// A cancellation or an expiry that was lost explains refusals, as leaked units do.
	if bad+limits > 0 && !j.letters['A'] {
		j.find('U')
	}
	j.each(bad, "UA", text.Of("%d sold_out [answer|answers] for a reservation while there must have been enough"))
	j.each(excused, "L", sayLeakRefusals)
	j.each(limits, "UA", sayBadLimit)
}

// purged reports whether a reservation of the request may have been removed since: those that ended without a payment
// are kept for an hour.
func (j *reservationJudge) purged(op ReservationOp) bool {
	return j.end-op.Call > int64(time.Hour)
}

// shelf answers how few units may have been free between two times. That number falls at the call of a take and rises
// after a release, so it is least at the first of these times, at a call, or at the last.
type shelf struct {
	of, most     int64    // at first, and if nothing is taken
	taken, freed []change // in order of time, with the sums up to each
	low          []int64  // the least after each call
}

func shelfOf(takes []taken, of int64, shifts ...shift) *shelf {
	var all, freed []change
	for _, t := range takes {
		all = append(all, change{t.call, t.units})
		if t.free != never {
			freed = append(freed, change{t.free, t.units})
		}
	}
	return newShelf(of, all, freed, shifts...)
}

func newShelf(of int64, taken, freed []change, shifts ...shift) *shelf {
	s := &shelf{of: of, most: of, taken: slices.Clone(taken), freed: slices.Clone(freed)}
	for _, a := range shifts {
		switch {
		case a.units < 0:
			s.taken = append(s.taken, change{a.call, -a.units})
		case a.answer != never:
			s.most, s.freed = s.most+a.units, append(s.freed, change{a.answer, a.units})
		}
	}
	for _, c := range [][]change{s.taken, s.freed} {
		slices.SortFunc(c, func(a, b change) int { return cmp.Compare(a.at, b.at) })
		for i := 1; i < len(c); i++ {
			c[i].units = add(c[i].units, c[i-1].units)
		}
	}
	for _, c := range s.taken {
		s.low = append(s.low, s.left(c.at))
	}
	return s
}

// left is the least that may have been free at a time.
func (s *shelf) left(now int64) int64 {
	left := s.of
	if n := sort.Search(len(s.taken), func(i int) bool { return s.taken[i].at > now }); n > 0 {
		left = add(left, -s.taken[n-1].units)
	}
	if n := sort.Search(len(s.freed), func(i int) bool { return s.freed[i].at >= now }); n > 0 {
		left += s.freed[n-1].units
	}
	return left
}

// fewest is the least that may have been free between two times.
func (s *shelf) fewest(from, to int64) int64 {
	least := min(s.most, s.left(from), s.left(to))
	for i := sort.Search(len(s.taken), func(i int) bool { return s.taken[i].at > from }); i < len(s.taken); i++ {
		if s.taken[i].at > to {
			break
		}
		least = min(least, s.low[i])
	}
	return least
}
