package faultlab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/stack"
)

// Cell is the result for one mode, store and fault.
type Cell struct {
	Mode  string       `json:"mode"`
	Store api.Store    `json:"store"`
	Fault api.Hazard   `json:"fault"`
	Claim api.Outcomes `json:"claim"`
	// Found holds every letter that some schedule showed, in the judge's order; "." = no schedule showed one, "" = none
	// could be judged.
	Found api.Outcomes `json:"found"`
	// Tried counts the schedules that were played, Left those that were left out.
	Tried int `json:"tried"`
	Left  int `json:"left,omitempty"`
	// judged counts the played schedules that proved something: they took their course and could have failed.
	judged int
	// Sampled says that only a sample of the schedules was played, so a letter may be missing.
	Sampled bool `json:"sampled,omitempty"`
	// committed are the witnesses of the committed matrix if nothing else is played.
	committed map[string]Schedule
	// Witnesses are schedules that show the letters, one each: the committed one, or else the first in the order of the
	// request that is the same in every run. Of a foreign service it is, if there is one, a schedule in which the rival
	// was answered before the victim went on.
	Witnesses map[string]Schedule `json:"witnesses,omitempty"`
	// Blocked says until when a paused holder keeps the others out, at the worst position; "" = no schedule paused a
	// holder.
	Blocked Blocked `json:"blocked,omitempty"`
	// BlockedFor is the longest time for which nobody finished in a schedule that kept the others out, in whole
	// milliseconds; the matrix does not have it.
	BlockedFor time.Duration `json:"blocked_for_ns,omitempty"`
	// Wrong has a sentence for each mistake: an outcome that is not claimed, a claimed outcome that was not found, a
	// schedule that diverged or was vacuous.
	Wrong []string `json:"wrong,omitempty"`
	// Undecided has a sentence for each schedule that tells nothing, again and again, because a server did not answer.
	Undecided []string `json:"undecided,omitempty"`
	// Unexplained is the rule that was broken where no letter names it ("!"), of a foreign service.
	Unexplained string `json:"unexplained,omitempty"`
	// BusyKeys adds up those of the reports.
	BusyKeys int `json:"busy_keys,omitempty"`
	// Untested says why the fault was not played on a foreign service, or not at every position; zero = it was.
	Untested text.Text `json:"untested,omitzero"`
}

// Letters are those of the outcomes, in the order in which they are written.
const Letters = judge.Letters + "!"

// Unclaimed is the claim of a foreign service: every letter found is reported, and no letter is expected.
const Unclaimed api.Outcomes = "?"

// Untested is what was found of a fault that was not played on a foreign service, or not at every position; see
// [Cell].Untested.
const Untested api.Outcomes = "?"

// sum adds up the schedules of a cell.
func sum(c Cell, played []Played) Cell {
	struck := slices.DeleteFunc(slices.Clone(played), func(p Played) bool { return p.Outcome == Idle })
	switch {
	case len(played) == 0 && c.Untested != (text.Text{}):
		c.Found = Untested
	case len(played) == 0 && len(c.Undecided) > 0:
	case len(played) == 0 && len(c.Wrong) == 0 && c.Claim == Unclaimed: // such as late, where nothing is left to clean up
		c.Found = api.NotApplicable
	case len(played) == 0 && len(c.Wrong) == 0:
		c.Wrong = append(c.Wrong, string(Vacuous)+": no schedule was played")
	case len(struck) == 0 && len(played) > 0 && c.Claim == Unclaimed && c.Fault == api.Stale: // it reads in transactions
		c.Found = api.NotApplicable
	case len(played) > 0 && len(struck) == 0:
		c.Wrong = append(c.Wrong, string(Vacuous)+": the hazard found nothing to strike at, at any position")
	}
	played = struck
	c.Tried, c.Witnesses = len(played), map[string]Schedule{}
	early := map[string]bool{} // letters with an early witness
	for _, p := range played {
		c.BusyKeys += p.Report.BusyKeys
		if longer[p.Blocked] > longer[NotBlocked] { // else the rival waited for something else than A
			c.BlockedFor = max(c.BlockedFor, p.Report.Blocked.Round(time.Millisecond))
		}
		if longer[p.Blocked] > longer[c.Blocked] {
			c.Blocked = p.Blocked
		}
		switch p.Outcome {
		case api.Exact:
			c.judged++
		case Diverged, Vacuous, Failed:
			why := string(p.Outcome) + ": " + p.Schedule.String() + ": " + p.Why
			if p.unserved && c.Claim != Unclaimed {
				c.Undecided = append(c.Undecided, why)
			} else {
				c.Wrong = append(c.Wrong, why)
			}
		default:
			c.judged++
			for _, letter := range string(p.Outcome) {
				if c.prefers(p.Schedule, string(letter)) || early[string(letter)] && !p.early {
					c.Witnesses[string(letter)], early[string(letter)] = p.Schedule, p.early
					switch {
					case letter != '!':
					case c.Claim == Unclaimed:
						c.Unexplained = p.Why
					default:
						c.Wrong = append(c.Wrong, p.Schedule.String()+": "+p.Why)
					}
				}
			}
		}
	}
	if c.Fault == api.Expiry && c.judged > 0 && c.Left+len(c.Undecided) == 0 && c.committed == nil {
		for _, end := range []string{"confirmed", "expired"} {
			if !slices.ContainsFunc(played, func(p Played) bool { return p.ended == end }) {
				c.Wrong = append(c.Wrong, fmt.Sprintf("%s: in no schedule the reservation ended as %s", Vacuous, end))
			}
		}
	}
	if c.judged > 0 {
		c.Found = found(c.Witnesses)
		if c.Found == api.Exact && c.Untested != (text.Text{}) { // else it is broken, whatever was not tried
			c.Found = Untested
		}
	}
	c.hold()
	return c
}

// prefers reports whether a schedule that shows a letter is a better witness of it than the one that the cell has.
func (c *Cell) prefers(s Schedule, letter string) bool {
	w, there := c.Witnesses[letter]
	committed, known := c.committed[letter]
	return !there || known && s.String() == committed.expiring(s.Expiry).String() || !steady(w) && steady(s)
}

// steady reports whether a schedule is the same in every run. The lab does not control which node of a Redlock answers
// first.
func steady(s Schedule) bool { return s.A == nil || !strings.HasPrefix(s.A.Server, stack.Redlock) }

// found returns the letters in the judge's order.
func found(witnesses map[string]Schedule) api.Outcomes {
	var b strings.Builder
	for _, letter := range Letters {
		if _, there := witnesses[string(letter)]; there {
			b.WriteRune(letter)
		}
	}
	return api.Outcomes(cmp.Or(b.String(), string(api.Exact)))
}

// hold compares the letters found with the claim, both ways. If only a sample of the schedules was played, or some are
// undecided, a claimed letter may be missing.
func (c *Cell) hold() {
	if c.Claim == Unclaimed {
		slices.Sort(c.Wrong)
		return
	}
	claimed := strings.Trim(string(c.Claim), string(api.Exact))
	if c.Claim == "" {
		c.Wrong = append(c.Wrong, "is not in matrix.json: 'shop lab --all --fault "+string(c.Fault)+
			" --update faultlab/matrix.json' enters it")
		slices.Sort(c.Wrong)
		return
	}
	for _, letter := range strings.Trim(string(c.Found), string(api.Exact)) {
		if !strings.ContainsRune(claimed, letter) && letter != '!' {
			c.Wrong = append(c.Wrong, "found "+string(letter)+", which is not claimed: "+c.Witnesses[string(letter)].String())
		}
	}
	if c.judged == 0 || len(c.Undecided) > 0 {
		slices.Sort(c.Wrong)
		return
	}
	for _, letter := range claimed {
		if !strings.ContainsRune(string(c.Found), letter) && (!c.Sampled || c.Found == api.Exact) {
			c.Wrong = append(c.Wrong, "claimed "+string(letter)+", which no schedule showed")
		}
	}
	slices.Sort(c.Wrong)
}
