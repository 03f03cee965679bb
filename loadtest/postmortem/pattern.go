package postmortem

import (
	"lastitem/judge"
	"lastitem/say/text"
)

// Pattern is what the findings look like: a mode of lastitem that leaves the same traces, and one that does not.
type Pattern struct {
	Name   string `json:"name"`
	Letter string `json:"letter"` // of [judge.Letters]
	Said   string `json:"said"`
	Mode   string `json:"mode,omitempty"`   // "" = the files cannot tell which
	Hazard string `json:"hazard,omitempty"` // under which the mode shows it
	Stops  string `json:"stops"`            // a mode that is exact there
	How    string `json:"how"`
}

// shape is a pattern, and when the findings have it.
type shape struct {
	name, letter, mode, hazard, stops string
	said, how                         text.Text
	is                                func(r judge.Report) bool
}

var oneStatement = text.Of("let the database check and deduct in one statement, in the order's transaction: UPDATE " +
	"... " +
	"SET stock = stock - n WHERE id = ? AND stock >= n; no row changed means sold out")

// shapes are the patterns. The first of a letter that fits is the one.
var shapes = []shape{
	{"either", "O", "", "", "sql-atomic", text.Of("inconclusive: a lost update or a race of check and deduction; the " +
		"orders alone look " +
		"alike, the stock at the end tells (--stock-log, --stock-after): below zero after a race, zero or more after lost " +
		"updates"), oneStatement,
		func(r judge.Report) bool { return r.Unseen.After && !belowZero(r) }},
	{"race", "O", "reserve-check", "threads", "sql-atomic", text.Of("a race of check and deduction: several passed the " +
		"check before any deducted, and each deduction counted"), oneStatement,
		func(r judge.Report) bool { return r.Oversold > 0 && (r.LostUpdates == 0 || r.Final < 0) }},
	{"lost update", "O", "unsafe-sql", "threads", "sql-atomic", text.Of("lost updates: several read the same stock, " +
		"each " +
		"wrote it back less its own, and one write overwrote the others; a lock that is lost shows the same"), oneStatement,
		func(judge.Report) bool { return true }},
	{"count without order", "L", "redis-decr", "crash", "sql-atomic", text.Of("units were taken, and their orders never " +
		"written: two commands, and something ended between them"), text.Of("write the count and the order in one " +
		"transaction or one script; with a queue in between, keep what is in flight and reconcile it (shop reconcile)"),
		func(judge.Report) bool { return true }},
	{"double charge", "D", "sql-atomic", "retry", "idempotent", text.Of("one request was carried out twice: it was sent " +
		"again with its key, after a timeout or a double click"), text.Of("store the key under a unique index in the " +
		"order's " +
		"transaction, and answer a repetition with the first answer"), func(judge.Report) bool { return true }},
	{"forgotten", "A", "redis-lua", "failover", "idempotent", text.Of("orders were answered and are not there: answered " +
		"before they were durable, or forgotten by a store that failed over"), text.Of("answer after the commit of a store " +
		"that survives its master"), func(judge.Report) bool { return true }},
}

// belowZero says that some order left less than nothing.
func belowZero(r judge.Report) bool {
	for _, e := range r.Evidence {
		if e.Unit > e.Of {
			return true
		}
	}
	return false
}

func (s shape) pattern(lang string) Pattern {
	return Pattern{Name: s.name, Letter: s.letter, Said: s.said.In(lang), Mode: s.mode, Hazard: s.hazard, Stops: s.stops,
		How: s.how.In(lang)}
}

// Patterns are all that there are.
func Patterns(lang string) (all []Pattern) {
	for _, s := range shapes {
		all = append(all, s.pattern(lang))
	}
	return all
}

// patterns are those of the letters that were found.
func patterns(r judge.Report) (all []Pattern) {
	for _, letter := range r.Found {
		for _, s := range shapes {
			if s.letter == string(letter) && s.is(r) {
				all = append(all, s.pattern(r.Lang))
				break
			}
		}
	}
	return all
}
