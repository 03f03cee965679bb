package faultlab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/judge"
	"lastitem/say/text"
	"lastitem/target"
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

	silence time.Duration // see rig.Scene.Silence
	ended   string        // see rig.Scene.Ended
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

// scheduleLimit bounds one schedule, whatever hangs. Three times the time for which a lock may outlive its holder is
// added to it.
const scheduleLimit = 30 * time.Second

// Play plays a schedule on a lane and judges it. An error is the lab's own: a process that does not start, a server
// that is gone.
func Play(ctx context.Context, lane *rig.Lane, m api.Mode, s Schedule) (Played, error) {
	began := time.Now()
	f, ok := fault.Named(s.Fault)
	if !ok {
		return Played{}, fmt.Errorf("faultlab: unknown fault %q", s.Fault)
	}
	ctx, cancel := context.WithTimeout(ctx, scheduleLimit+3*outlive(m, lane.TTL))
	defer cancel()
	scene, err := lane.NewScene(ctx, rig.Ask{Ask: target.Ask{Mode: s.Mode, Store: s.Store}, Stock: f.Stock(s.Variant),
		About: f.About(s.Variant), Segments: segments(m), PerBuyer: perBuyer(m), ReserveFirst: reserveFirst(m, s.Store),
		Session: hasSession(m), Outlive: outlive(m, lane.TTL)})
	if err != nil {
		return Played{}, err
	}
	played := Played{Schedule: s}
	err = f.Strike(ctx, &fault.Play{
		Scene: scene, Mode: m, Variant: s.Variant, A: s.A, B: s.B, C: s.C, Order: s.Order, Forced: s.Expiry == Forced,
		Outlive: outlive(m, lane.TTL),
	})
	switch {
	case errors.Is(err, rig.ErrNotReached):
		played.Outcome, played.Why, played.unserved = Diverged, err.Error(), errors.Is(err, rig.ErrUnserved)
		err = lane.Quiesce(ctx)
	case errors.Is(err, rig.ErrNothing):
		played.Outcome, played.Why = Idle, err.Error()
		err = lane.Quiesce(ctx)
	case err == nil:
		played.Report, err = scene.Judge(ctx)
		played.Outcome, played.Why = outcome(played.Report, f.Ignore)
		played.ended = scene.Ended()
	}
	if err != nil {
		return Played{}, fmt.Errorf("faultlab: %s: %w", s, err)
	}
	played.Took, played.silence = time.Since(began), scene.Silence(fault.LockServers(m), renews(m, s.Store))
	if s.B == nil && s.Expiry != Forced {
		played.Blocked = blockedFor(scene.Events())
	}
	played.Story = tell(scene, played)
	return played, nil
}

// renews says whether a mode renews its lock while it works: it claims to survive slow work.
func renews(m api.Mode, s api.Store) bool { return m.Claims[s][api.Slow] == api.Exact }

// hasSession says whether the mode needs a service other than Redis and SQL.
func hasSession(m api.Mode) bool { return slices.ContainsFunc(m.Needs, isService) }

// segments returns the number of segments of the product: one if the mode needs segments, so that all requests meet in
// the same one.
func segments(m api.Mode) int { return min(m.Split(), 1) }

// reserveFirst says whether a schedule begins with a reservation, see rig.Ask: a mode that computes the stock, and no
// other that holds units, is broken by two requests.
func reserveFirst(m api.Mode, s api.Store) bool {
	return m.Reserves && m.Claims[s][api.Threads] != api.Exact
}

// perBuyer returns the limit of the product: one if the mode breaks a limit, else none.
func perBuyer(m api.Mode) int64 {
	if m.BreaksLimit() {
		return 1
	}
	return 0
}

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

// outlive is how long a lock of the mode may outlive its holder: the TTL of the lane, or what its service's sessions
// need.
func outlive(m api.Mode, ttl time.Duration) time.Duration {
	longest := 2 * ttl
	for _, need := range m.Needs {
		switch need {
		case "etcd":
			longest = max(longest, 4*time.Second)
		case "zookeeper":
			longest = max(longest, 2*time.Second)
		case "consul":
			longest = max(longest, 45*time.Second) // twice the session's TTL, the lock-delay, and some delay of the agent
		}
	}
	return longest
}
