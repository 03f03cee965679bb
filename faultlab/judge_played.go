package faultlab

import (
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/judge"
)

// Played is a schedule with its outcome.
type Played struct {
	Schedule Schedule `json:"schedule"`
	// Outcome is "." or the letters found; Diverged if a position was not reached; Vacuous if nothing could be judged.
	Outcome api.Outcomes `json:"outcome"`
	// Why is the reason for Diverged, Vacuous or an outcome without a letter.
	Why    string        `json:"why,omitempty"`
	Report judge.Report  `json:"report"`
	Took   time.Duration `json:"-"`
	// Blocked says until when A, while paused, kept the others out; "" = A was not paused, the rival was held too, or no
	// lease had to run out.
	Blocked Blocked `json:"-"`
	Story   *Story  `json:"story,omitempty"`

	// early says that A, of a service that is not ours, went on while a rival had no answer yet: where the rival was only
	// slow, another run shows something else.
	early   bool
	silence time.Duration // see rig.Scene.Silence
	// keptOut and unsettled say that the schedule of a service that is not ours proves too little: see rig.Scene.KeptOut,
	// of faults in which a lease must end, and rig.Scene.Unsettled, which it is not accused of.
	keptOut   time.Duration
	unsettled bool
	ended     string // see rig.Reservations.Ended
	// unserved says that it Diverged because a server did not answer in time.
	unserved bool
}

// The outcomes of a schedule that proved nothing: it could not have failed, or it did not take its course.
const (
	Diverged api.Outcomes = "DIVERGED"
	Vacuous  api.Outcomes = "VACUOUS"
	// Failed is a schedule that the lab could not play to its end.
	Failed api.Outcomes = "FAILED"
)

// Idle is the outcome if the hazard had nothing to strike, for example because the lock is not taken yet. Such a
// schedule is not counted.
const Idle api.Outcomes = "IDLE"

// Unexplained stands for a violation that none of the letters names.
const Unexplained api.Outcomes = "!"

// outcome turns a verdict into letters.
func outcome(r judge.Report, ignore string) (api.Outcomes, string) {
	letters := strings.Map(func(c rune) rune {
		if c == ' ' || strings.ContainsRune(ignore, c) {
			return -1
		}
		return c
	}, r.Found)
	switch {
	case r.Verdict == judge.Broken && r.Found != "" && letters == "" && len(r.Violations) == 0:
		// nothing but what is ignored
		return api.Exact, ""
	case r.Verdict == judge.Exact:
		return api.Exact, ""
	case r.Verdict == judge.Broken && letters != "":
		return api.Outcomes(letters), strings.Join(r.Violations, "; ")
	case r.Verdict == judge.Broken:
		return Unexplained, strings.Join(r.Violations, "; ")
	default:
		return Vacuous, strings.Join(r.Missing, "; ")
	}
}

// Blocked says how long a paused holder keeps other requests for the product from being served. It follows from the
// order of events, not from the clock.
type Blocked string

// The values, from the shortest to the longest.
const (
	NotBlocked  Blocked = "no"     // a request of the rival was answered during the pause, and none was declined before it
	UntilLease  Blocked = "lease"  // the rival was declined first, and served while the holder was still paused
	UntilHolder Blocked = "holder" // nobody was served before the holder resumed
)

var longer = map[Blocked]int{"": 0, NotBlocked: 1, UntilLease: 2, UntilHolder: 3}

// early says whether a rival was given up as blocked before A went on.
func early(events []rig.Event) bool {
	for _, e := range events {
		switch e.What {
		case rig.Blocked:
			return true
		case rig.Passed, rig.Resumed:
			return false
		}
	}
	return false
}

// blockedFor derives Blocked from the events of a schedule between A's pause and A's resumption; "" = A was not paused.
func blockedFor(events []rig.Event) Blocked {
	found := Blocked("")
	var from time.Duration
	victim := ""
	for _, e := range events {
		switch {
		case e.What == rig.Paused:
			found, from, victim = NotBlocked, e.At, e.Actor
		case found == "" || e.At < from:
		case e.What == rig.Resumed:
			return UntilHolder
		case e.What == rig.Answered && e.Actor != victim && !strings.HasPrefix(e.Text, string(judge.Declined)):
			return found
		case e.What == rig.Answered && e.Actor != victim:
			found = UntilLease
		}
	}
	return found
}
