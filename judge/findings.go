package judge

import (
	"strings"

	"lastitem/say/text"
)

// findings is what a judgement has come to so far, and what its verdict is drawn from.
type findings struct {
	r       Report
	letters map[byte]bool // outcomes found so far
	broken  []violation
	missing []string // why it is inconclusive
	vacuous []string // why it is vacuous
	tainted bool     // the ledger holds orders of another product or mode, or of a run that somebody else began
}

// violation is one broken rule, in words. Many rules break together: overselling below zero also leaves a negative
// stock. A mode that claims to oversell must not be contradicted by the consequence of what it claims, nor be excused
// for anything else; so each rule names the letters that imply it, and only if one of these was found is it a
// consequence.
type violation struct {
	implied  string // letters that say it already; "" = none does
	sentence string
}

// draw draws the verdict. Missing data does not weaken evidence of breakage. Without such evidence the data
// must be complete, and able to show a failure, or the run is not called exact.
func (f *findings) draw() Report {
	r := &f.r
	for _, l := range []byte(Letters) {
		if f.letters[l] {
			r.Found += string(l)
		}
	}
	for _, v := range f.broken {
		if strings.ContainsAny(r.Found, v.implied) {
			r.Consequences = append(r.Consequences, v.sentence)
		} else {
			r.Violations = append(r.Violations, v.sentence)
		}
	}
	r.Missing = f.missing
	switch {
	case !f.tainted && (r.Found != "" || len(r.Violations) > 0):
		r.Verdict = Broken
		return *r
	case len(f.missing) > 0:
		r.Verdict = Inconclusive
	case len(f.vacuous) > 0:
		r.Verdict = Vacuous
	default:
		r.Verdict = Exact
	}
	r.Missing = append(r.Missing, f.vacuous...)
	return *r
}

// find notes that an outcome was seen.
func (f *findings) find(letter byte) {
	if f.letters == nil {
		f.letters = map[byte]bool{}
	}
	f.letters[letter] = true
}

// violate notes a broken rule, and the letters that imply it.
func (f *findings) violate(implied string, t text.Text, args ...any) {
	f.broken = append(f.broken, violation{implied, f.say(t, args...)})
}

// each notes a rule that is broken n times, if it is.
func (f *findings) each(n int, implied string, t text.Text, args ...any) {
	if n > 0 {
		f.violate(implied, t, append([]any{n}, args...)...)
	}
}

// lack notes missing data; it returns false, so that open can end with it.
func (f *findings) lack(t text.Text, args ...any) bool {
	f.missing = append(f.missing, f.say(t, args...))
	return false
}

// idle notes why the data could not have shown a failure.
func (f *findings) idle(t text.Text, args ...any) {
	f.vacuous = append(f.vacuous, f.say(t, args...))
}

// skip notes what was not checked.
func (f *findings) skip(t text.Text, args ...any) {
	f.r.Unchecked = append(f.r.Unchecked, f.say(t, args...))
}

func (f *findings) say(t text.Text, args ...any) string { return say(f.r.Lang, t, args...) }

// say fills in a sentence in the language lang.
func say(lang string, t text.Text, args ...any) string {
	if len(args) == 0 {
		return t.In(lang)
	}
	return text.Sprintf(t.In(lang), args...)
}

// lackUnseen notes which counts nobody has read.
func (f *findings) lackUnseen(n Unseen) {
	if f.r.Unseen = n; n.Before {
		f.lack(text.Of("nobody knows how many units there were at the start"))
	}
	if n.After {
		f.lack(text.Of("nobody knows how many units were left at the end, so neither lost updates nor leaks can be told"))
	}
}

// gone tells apart the units that are gone without an order. Refused requests that take units and put none back leave
// the counter below zero: those units were never there, so none of them is missing.
func (f *findings) gone(units int64) {
	f.r.Overdrawn = min(max(0, -f.r.Final), units)
	f.r.Leaked = units - f.r.Overdrawn
}

// blameSums reports what the sums show. Below zero, more was taken than there was: by orders, which is O, or by nobody.
func (f *findings) blameSums() {
	r := &f.r
	if r.Oversold > 0 || r.LostUpdates > 0 {
		f.find('O')
	}
	if r.Leaked > 0 {
		f.find('L')
	}
	switch {
	case r.Overdrawn > 0:
		f.violate("", sayOverdrawn, r.Final, r.Overdrawn)
	case r.Final < 0:
		f.violate("O", text.Of("the stock is %d"), r.Final)
	}
}
