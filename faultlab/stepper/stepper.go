// Package stepper makes a person the scheduler of two clients that want to buy the same product: every command of a
// client is held before its server until the person lets it pass. The person can also let locks expire, stop and kill
// processes, and lose answers. After each move the package shows the contents of Redis and of the database.
//
// The replicas, the servers and the proxies are a lane of the fault lab. A schedule is a string of moves. The same
// string leads to the same state, so to go back is to play a shorter string from the start. Start reading at [New];
// moves.go has the moves, lessons.go the lessons.
package stepper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/stack"
)

// Options configures a [Stepper].
type Options struct {
	// Binary is the path of the shop's program; "" = the running program.
	Binary string
	// Idle is how long the servers keep running when nobody plays; 0 = ten minutes.
	Idle time.Duration
	// Log receives a line for every server and replica that is started; nil = not called.
	Log func(format string, args ...any)
}

const (
	idle = 10 * time.Minute
	// ttl and patience (how long clients wait) are longer than any session of play, so that no lock expires and no client
	// gives up by itself.
	ttl, patience = 6 * time.Hour, 3 * time.Hour
	// maxThought is how long a reader may think in all while the commands of a schedule are held; after that it is played
	// again from the start. A lock gives up some of its commands after two seconds (lease.CleanupTimeout), however patient
	// the clients are.
	maxThought = time.Second
	// startLimit bounds a start of the servers, and playLimit one request, whatever hangs.
	startLimit, playLimit = 90 * time.Second, 60 * time.Second
)

// Stepper plays one schedule at a time, on one lane, which the first schedule starts. It is safe for concurrent use.
type Stepper struct {
	options Options
	busy    chan struct{}   // holds one element while somebody plays
	base    context.Context //nolint:containedctx // it ends with Close
	cancel  context.CancelFunc

	// The fields below belong to the caller that holds busy.
	servers *gear.Servers
	lane    *rig.Lane
	play    *play
	timer   *time.Timer
	// equipment is that of the lane.
	equipment gear.Equipment
}

// New returns a stepper. The caller must close it.
func New(o Options) *Stepper {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Idle == 0 {
		o.Idle = idle
	}
	s := &Stepper{options: o, busy: make(chan struct{}, 1)}
	s.base, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends the servers, and breaks off the schedule that is being played. It may be called again.
func (s *Stepper) Close() error {
	s.cancel()
	s.busy <- struct{}{}
	defer func() { <-s.busy }()
	return s.end()
}

// end ends the servers if they run.
func (s *Stepper) end() error {
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.servers == nil {
		return nil
	}
	if s.lane != nil {
		s.lane.Close()
	}
	s.play.end()
	err := s.servers.Close()
	s.servers, s.lane, s.play = nil, nil, nil
	return err
}

// Lessons returns all lessons, in their order.
func (s *Stepper) Lessons() []Lesson { return lessons }

// Play plays a schedule of a lesson, and returns the state to which it leads. If the previous schedule is a prefix of
// it, and little time has passed between its moves, Play plays only the rest. It leaves out the first move that is not
// possible, and all moves after it; State.Cut says so. errors.Is(err, fs.ErrNotExist): there is no such lesson. Other
// errors: the servers could not be started, or a schedule did not end; the next call starts the servers again.
func (s *Stepper) Play(ctx context.Context, lesson, moves string) (*State, error) {
	l, ok := named(lesson)
	if !ok {
		return nil, fmt.Errorf("stepper: no lesson %q: %w", lesson, fs.ErrNotExist)
	}
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.busy }()
	if s.base.Err() != nil {
		return nil, errors.New("stepper: closed")
	}
	s.keep()
	// The schedule is played to its end even if the reader has left.
	state, err := s.follow(l, moves)
	if err != nil {
		err = errors.Join(err, s.end())
	}
	return state, err
}

// keep postpones the end of the servers.
func (s *Stepper) keep() {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = time.AfterFunc(s.options.Idle, func() {
		s.busy <- struct{}{}
		defer func() { <-s.busy }()
		if err := s.end(); err != nil {
			s.options.Log("stepper: %v", err)
		}
	})
}

// follow plays the new part of a schedule.
func (s *Stepper) follow(l Lesson, schedule string) (*State, error) {
	if err := s.start(l.equipment); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.base, playLimit)
	defer cancel()
	moves := parse(schedule)
	before := 0 // so many of the moves were possible the last time
	if s.play != nil {
		s.play.thought += time.Since(s.play.left)
		if s.play.lesson.Name == l.Name {
			before = shared(moves, s.play.moves())
		}
	}
	if s.play == nil || s.play.lesson.Name != l.Name || before < len(s.play.steps) || s.play.thought > maxThought {
		var err error
		if s.play, err = begin(ctx, s.lane, s.play, l); err != nil {
			return nil, err
		}
	}
	for _, m := range moves[len(s.play.steps):] {
		possible, err := s.play.move(ctx, m)
		if !possible && err == nil && len(s.play.steps) < before { // a server is slower than the last time
			err = s.play.await(ctx, m)
			if err == nil {
				possible, err = s.play.move(ctx, m)
			}
		}
		if err != nil {
			return nil, err
		}
		if !possible {
			break
		}
	}
	s.play.left = time.Now()
	state := s.play.state()
	state.Cut = state.Moves != schedule
	return state, nil
}

// shared returns with how many equal moves two schedules begin.
func shared(a, b []string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// start starts the servers and a lane with the equipment, unless they run.
func (s *Stepper) start(equipment gear.Equipment) error {
	if s.lane != nil && s.equipment == equipment {
		return nil
	}
	if s.lane != nil {
		s.lane.Close()
		s.play.end()
		s.lane, s.play = nil, nil
	}
	ctx, cancel := context.WithTimeout(s.base, startLimit)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	binary := cmp.Or(s.options.Binary, os.Getenv(stack.EnvBinary), self)
	if s.servers == nil {
		s.servers, err = gear.Start(ctx, gear.Options{Lanes: 1, Binary: binary, Log: s.options.Log})
		if err != nil {
			return err
		}
	}
	s.equipment, equipment.Settings = equipment, "SHOP_LOCK_TIMEOUT="+patience.String()
	if equipment.Consume {
		equipment.Settings += claims
	}
	s.lane, err = rig.NewLane(ctx, s.servers, rig.LaneOptions{
		Service: rig.Shop(binary), Patience: patience, SetOptions: gear.SetOptions{TTL: ttl,
			Equipment: equipment},
	})
	return err
}
