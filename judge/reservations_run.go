package judge

import (
	"maps"
	"slices"
	"strings"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// ReservationRun says what a run of requests about reservations was meant to show.
type ReservationRun struct {
	Mode  string
	Store api.Store
	// Replicas, Stock, WantSoldOut and Stopped are those of [Input].
	Replicas    int
	Stock       *int64
	WantSoldOut bool
	Stopped     bool
	// Expiry says that confirms were meant to meet deadlines. If too few did, Report.Unchecked says so, and the verdict
	// stays.
	Expiry bool
}

// enoughRaces is how many confirms must meet a deadline or a sweep before a run says anything about expiry.
const enoughRaces = 20

// Judge is [Reservations] of a run. It is VACUOUS if the run could not have shown a failure, and INCONCLUSIVE if
// somebody else set the stock or reserved.
func (run ReservationRun) Judge(b *api.Reservations, ops []ReservationOp, lang string) ReservationReport {
	j := newReservationJudge(b, ops, lang)
	j.r.Mode, j.r.Store = run.Mode, run.Store
	if run.Stock != nil && j.course.whole && *run.Stock != j.course.set {
		j.tainted = true
		j.lack(sayStockSet, j.course.set, *run.Stock)
	}
	j.compareClocks()
	j.weigh(run)
	r := j.judged()
	r.Report.Held, r.Report.WrittenOff = r.Held, r.WrittenOff
	// As in [Judge]: units that count twice may still be sold, but are not oversold before they are.
	gone := r.Sold + r.Held + r.WrittenOff
	r.LostUpdates = max(0, gone+r.Final-r.Initial)
	if r.LostUpdates > 0 && r.Oversold == r.LostUpdates { // else more was held at one moment
		r.Oversold = max(0, gone-r.Initial)
	}
	r.Said = map[rune][]string{}
	for _, v := range j.broken {
		for _, letter := range v.implied {
			r.Said[letter] = append(r.Said[letter], v.sentence)
		}
	}
	return r
}

// weigh asks whether the data could have shown a failure at all.
func (j *reservationJudge) weigh(run ReservationRun) {
	j.r.Answers, j.r.Replicas = map[Outcome]int{}, map[string]int{}
	made, refused := 0, 0
	var all, asked []Op // asked for units
	for _, op := range j.ops {
		j.r.Answers[op.Outcome]++
		one := Op{Call: op.Call, Return: op.Return, Outcome: op.Outcome}
		all = append(all, one)
		if op.Limit {
			one.Outcome, one.Code = Declined, api.LimitReached
		}
		if op.Kind == Reserve {
			asked = append(asked, one)
		}
		switch {
		case op.Kind == Reserve && op.Outcome == OK:
			made++
		case op.Kind == Reserve && op.Outcome == Refused && !op.Limit:
			refused++
		}
	}
	others := 0
	for _, row := range j.book.Rows {
		j.r.Replicas[row.Replica]++
		if run.Mode != "" && row.Mode != run.Mode {
			others++
		}
	}
	if others > 0 {
		j.tainted = true
		j.lack(text.Of("%d [reservation was|reservations were] made by another mode than %s, so the run was not its own"),
			others, run.Mode)
	}
	if run.Stopped {
		j.idle(sayStopped)
	}
	switch {
	case made == 0:
		j.idle(text.Of("nothing was held%s"), turnedAway(asked, j.r.Lang))
	case j.r.Orders == 0:
		j.idle(sayNothingSold, turnedAway(asked, j.r.Lang))
	case run.WantSoldOut && refused == 0:
		j.idle(sayNobodyRefused, turnedAway(asked, j.r.Lang))
	}
	if names := slices.Sorted(maps.Keys(j.r.Replicas)); run.Replicas > 1 && len(names) == 1 {
		j.idle(sayOneReplica, names[0], run.Replicas)
	}
	if !overlapping(all, false) {
		j.idle(sayNoOverlap)
	}
	if run.Expiry {
		j.weighExpiry()
	}
}

// weighExpiry counts the confirms that were under way when the deadline or a sweep of their reservation came.
func (j *reservationJudge) weighExpiry() {
	won := map[string]int{}
	raced := map[string]bool{}
	for _, op := range j.ops {
		row := j.rows[op.ReservationID]
		if op.Kind != Confirm || op.Outcome == Unknown || raced[op.ReservationID] || !j.skew.known {
			continue
		}
		within := func(at int64) bool { return op.Call <= j.skew.latest(at) && j.skew.earliest(at) <= op.Return }
		if within(row.ExpiresMicros) || slices.ContainsFunc(row.Events, func(e api.ReservationEvent) bool {
			return e.CommittedMicros > e.AtMicros && within(e.CommittedMicros) // else the confirm itself may have expired it
		}) {
			raced[op.ReservationID] = true
			if slices.ContainsFunc(row.Events, func(e api.ReservationEvent) bool { return e.Now == expired }) {
				won[expired]++ // though a late payment may have bought it since
			} else {
				won[row.State]++
			}
		}
	}
	switch j.races = len(raced); {
	case j.races < enoughRaces:
		j.skip(text.Of("a deadline that passes during the confirm: only %d [reservation|reservations] had one, want %d"),
			j.races, enoughRaces)
	case won[confirmed] == 0 || won[expired] == 0:
		j.skip(text.Of("a deadline that passes during the confirm: of %d [reservation|reservations] that had one, %d "+
			"[was|were] confirmed and %d expired; want some of both"), j.races, won[confirmed], won[expired])
	}
}

// With is the report on a store with what was found of its reservations in their own book.
func (r Report) With(h ReservationReport) Report {
	r.Held, r.WrittenOff = h.Held, h.WrittenOff
	r.Unchecked = append(r.Unchecked, h.Unchecked...)
	if h.Verdict != Broken {
		return r
	}
	r.Verdict = Broken
	r.Leaked, r.Doubles = max(r.Leaked, h.Leaked), max(r.Doubles, h.Doubles)
	r.Violations = append(r.Violations, h.Violations...)
	r.Consequences = append(r.Consequences, h.Consequences...)
	both := r.Found + h.Found
	r.Found = ""
	for _, l := range Letters {
		if strings.ContainsRune(both, l) {
			r.Found += string(l)
		}
	}
	return r
}
