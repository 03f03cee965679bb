package faultlab

import (
	"errors"
	"fmt"
	"slices"

	"lastitem/contract/api"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/say/text"
)

// Schedule is one way in which a fault can strike a mode. It can be played again, here or elsewhere.
type Schedule struct {
	Mode  string     `json:"mode"`
	Store api.Store  `json:"store"`
	Fault api.Hazard `json:"fault"`
	// Variant says how the fault strikes, if it has several ways.
	Variant string `json:"variant,omitempty"`
	// A is where the victim is held, B the rival; nil = the victim finishes, and the rival is not held.
	A *rig.Position `json:"a,omitempty"`
	B *rig.Position `json:"b,omitempty"`
	// C is where a third request is held, beside A and B; nil = nowhere. Order is then the order in which the three go on:
	// "BCA"; "" = "ABC".
	C     *rig.Position `json:"c,omitempty"`
	Order string        `json:"order,omitempty"`
	// Expiry is how the holder's locks expire; "" = Awaited.
	Expiry Expiry `json:"expiry,omitempty"`
}

// Expiry says how the locks of a holder that does not run (pause, crash) expire.
type Expiry string

const (
	// Awaited waits until the TTL is over, by the holder's clock as well.
	Awaited Expiry = "awaited"
	// Forced ends the locks at their servers at once. The holder's clock has not moved.
	Forced Expiry = "forced"
)

// expiring returns the schedule with this expiry if its fault can force an expiry.
func (s Schedule) expiring(how Expiry) Schedule {
	if f, _ := fault.Named(s.Fault); how == Forced && f.Forcible {
		s.Expiry = Forced
	}
	return s
}

func (s Schedule) String() string {
	said := s.Mode
	if s.Store != "" {
		said += " (" + string(s.Store) + ")"
	}
	said += ", " + string(s.Fault)
	if s.Variant != "" {
		said += " (" + s.Variant + ")"
	}
	if s.A != nil {
		said += ", A " + s.A.String()
	}
	if s.B != nil {
		said += ", B " + s.B.String()
	}
	if s.C != nil {
		said += ", C " + s.C.String()
	}
	if s.Order != "" {
		said += ", on in the order " + s.Order
	}
	if s.Expiry == Forced {
		said += ", expiry forced"
	}
	return said
}

// Check returns an error if the schedule cannot be played on any servers; nil = it can. Use it for schedules that were
// read from files.
func (s Schedule) Check() error {
	f, known := fault.Named(s.Fault)
	switch {
	case !known:
		return text.Of("unknown fault %q").Errorf(s.Fault)
	case s.A == nil && !f.AtEnd:
		return fmt.Errorf("a schedule of %s needs the position of the victim, a", s.Fault)
	case s.A != nil && !slices.Contains(f.Cuts, s.A.Cut):
		return fmt.Errorf("%s does not hold the victim at a cut %q", s.Fault, s.A.Cut)
	case s.B == nil && f.Rival:
		return fmt.Errorf("a schedule of %s needs the position of the rival, b", s.Fault)
	case s.B != nil && !slices.Contains(rivalCuts, s.B.Cut):
		return fmt.Errorf("a rival is not held at a cut %q", s.B.Cut)
	case s.Expiry != "" && s.Expiry != Awaited && (s.Expiry != Forced || !f.Forcible):
		return fmt.Errorf("locks do not expire %q in a schedule of %s", s.Expiry, s.Fault)
	}
	return s.checkThird(f)
}

// checkThird checks what a schedule says about a third held request.
func (s Schedule) checkThird(f fault.Fault) error {
	switch {
	case s.C == nil && s.Order != "":
		return errors.New("an order is of three held requests, and there is no position c")
	case s.C == nil:
		return nil
	case s.A == nil || s.B == nil || !f.ThirdHeld():
		return fmt.Errorf("%s does not hold a third request here", s.Fault)
	case !slices.Contains(rivalCuts, s.C.Cut):
		return fmt.Errorf("a third request is not held at a cut %q", s.C.Cut)
	case s.Order != "" && !slices.Contains(fault.Orders, s.Order):
		return fmt.Errorf("the order %q is none of A, B and C", s.Order)
	}
	return nil
}

// rivalCuts are where requests other than the victim's are held.
var rivalCuts = []rig.Cut{rig.Command, rig.Answer}
