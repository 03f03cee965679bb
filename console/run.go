package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lastitem/contract/api"
)

// Spec describes a run that a user has requested.
type Spec struct {
	Modes []string `json:"modes"`
	// Replicas is how many of the stack's replicas get requests.
	Replicas int   `json:"replicas"`
	Clients  int   `json:"clients"`
	Stock    int64 `json:"stock"`
	// Lang is the language of the judge's sentences.
	Lang string `json:"lang"`
	// Window is an id that the page gives itself, so that other pages know that the run is not theirs.
	Window string `json:"window,omitempty"`
}

// Driver makes runs. The driver of 'shop play' calls compare.Modes with the plan of 'shop demo', so that the engine
// and the judge are the same.
type Driver interface {
	// Modes lists the modes of the stack.
	Modes(ctx context.Context) ([]api.Mode, error)
	// Drive runs the modes one after the other, and reports each step, from one goroutine at a time. When ctx ends, it
	// returns the results so far.
	Drive(ctx context.Context, spec Spec, report func(Step)) error
	// Product is the product that the runs sell.
	Product() int64
}

// The phases of a step that matter to the console.
const (
	PhaseReset = "reset" // the stock is being set: a run begins, or is repeated
	PhaseRun   = "run"   // the load
)

// Step is the progress of a run.
type Step struct {
	Index    int     `json:"index"` // from 1
	Total    int     `json:"total"`
	Mode     string  `json:"mode"`
	Phase    string  `json:"phase,omitempty"`
	Done     float64 `json:"done"` // the share of the load that has been sent
	Accepted int64   `json:"accepted"`
	Refused  int64   `json:"refused"`
	Failed   int64   `json:"failed"`
	// Ended says that the mode has finished, with a Result or an Error.
	Ended  bool   `json:"ended,omitempty"`
	Result any    `json:"result,omitempty"` // as in the JSON of 'shop demo'
	Error  string `json:"error,omitempty"`
}

// The states of a run.
const (
	Running = "running"
	Ended   = "ended"
	Stopped = "stopped"
	Broken  = "failed"
)

// run is the current run, or the last one.
type run struct {
	ID      int    `json:"id"`
	Spec    Spec   `json:"spec"`
	State   string `json:"state"`
	Error   string `json:"error,omitempty"`
	Attempt int    `json:"attempt"` // of the current mode: a mode that did not show what it claims is run again
	Step    Step   `json:"step"`
	Results []Step `json:"results"` // the steps that have ended

	picture *picture // nil for a run of several modes
	stop    context.CancelFunc
	done    chan struct{}
}

// Snapshot has everything that a page needs when it opens.
type Snapshot struct {
	Run *run `json:"run,omitempty"`
	// Compared is the last run of several modes before Run.
	Compared *run   `json:"compared,omitempty"`
	Frame    *Frame `json:"frame,omitempty"`
}

const (
	// frameEvery is the time between two frames: ten a second.
	frameEvery = 100 * time.Millisecond
	maxPlayed  = 60  // modes of one run
	maxClient  = 500 // clients
	maxStock   = 100_000
	maxWindow  = 40 // bytes of the id of a window
)

var (
	errRunning = errors.New("a run is in progress")
	errTooMany = errors.New("too many pages are open")
)

// check fills in the defaults of a spec, and returns an error that names its first mistake.
func (c *Console) check(s *Spec, known []api.Mode) error {
	s.Modes = slices.Compact(s.Modes)
	switch {
	case len(s.Modes) == 0 || len(s.Modes) > maxPlayed:
		return fmt.Errorf("modes: want 1 to %d", maxPlayed)
	case s.Replicas < 1 || s.Replicas > len(c.options.Replicas):
		return fmt.Errorf("replicas: want 1 to %d", len(c.options.Replicas))
	case s.Clients < 1 || s.Clients > maxClient:
		return fmt.Errorf("clients: want 1 to %d", maxClient)
	case s.Stock < 1 || s.Stock > maxStock:
		return fmt.Errorf("stock: want 1 to %d", maxStock)
	case len(s.Window) > maxWindow:
		return fmt.Errorf("window: want at most %d bytes", maxWindow)
	}
	if s.Lang != "zh" {
		s.Lang = "en"
	}
	for _, name := range s.Modes {
		i := slices.IndexFunc(known, func(m api.Mode) bool { return m.Name == name })
		if i < 0 {
			return fmt.Errorf("modes: no mode %q", name)
		}
		if !known[i].Available && len(s.Modes) == 1 {
			return fmt.Errorf("modes: %s is not available: %s", name, known[i].Why)
		}
	}
	return nil
}

// start begins a run, which goes on after the answer to the request that started it.
func (c *Console) start(spec Spec) (*run, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.run != nil && c.run.State == Running {
		return nil, errRunning
	}
	ctx, stop := context.WithCancel(c.base)
	c.runs++
	r := &run{ID: c.runs, Spec: spec, State: Running, Results: []Step{}, stop: stop, done: make(chan struct{})}
	replicas := c.options.Replicas[:spec.Replicas]
	if len(spec.Modes) == 1 {
		names := make([]string, len(replicas))
		for i, x := range replicas {
			names[i] = x.Name
		}
		r.picture = newPicture(spec.Modes[0], c.driver.Product(), names)
	}
	if c.run != nil && len(c.run.Results) > 0 && len(c.run.Spec.Modes) > 1 {
		c.compared = c.run
	}
	c.run = r
	c.hub.publish("begin", c.snapshot())
	go c.drive(ctx, r, replicas)
	return r, nil
}

// drive makes the run, and publishes its progress to the browsers.
func (c *Console) drive(ctx context.Context, r *run, replicas []Replica) {
	defer close(r.done)
	defer r.stop()
	unwatch := func() {}
	if r.picture != nil {
		unwatch = c.watch(ctx, replicas, r.picture)
	}
	ticking, ticked := context.WithCancel(ctx)
	frames := make(chan struct{})
	go func() { defer close(frames); c.frames(ticking, r) }()
	err := c.driver.Drive(ctx, r.Spec, func(s Step) { c.step(ctx, r, s) })
	ticked()
	<-frames
	unwatch()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		r.State = Stopped
		if r.picture != nil {
			r.picture.mark(time.Now().UnixMicro(), "", Stop)
		}
	case err != nil:
		r.State, r.Error = Broken, err.Error()
	default:
		r.State = Ended
	}
	c.publishFrame(r)
	c.hub.publish("end", r)
}

// step handles a report of the driver.
func (c *Console) step(ctx context.Context, r *run, s Step) {
	if s.Ended && r.picture != nil {
		rest(ctx, settleFor)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	began := s.Phase == PhaseRun && (r.Step.Phase != PhaseRun || r.Step.Mode != s.Mode)
	switch {
	case s.Mode != r.Step.Mode:
		r.Attempt = 1
	case s.Phase == PhaseReset && r.Step.Phase != PhaseReset && r.Step.Phase != "":
		r.Attempt++
	}
	r.Step = s
	if began && r.picture != nil {
		r.picture.begin(time.Now().UnixMicro())
		c.publishFrame(r)
		c.hub.publish("load", r)
	}
	if s.Ended {
		r.Results = append(r.Results, s)
		c.publishFrame(r)
		c.hub.publish("result", r)
	}
}

// frames publishes a frame whenever something has changed, at most ten times a second.
func (c *Console) frames(ctx context.Context, r *run) {
	tick := time.NewTicker(frameEvery)
	defer tick.Stop()
	var told Step
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.mu.Lock()
		if r.Step.Index != told.Index || r.Step.Phase != told.Phase || r.Step.Done != told.Done {
			told = r.Step
			told.Result = nil
			c.hub.publish("step", told)
		}
		c.publishFrame(r)
		c.mu.Unlock()
	}
}

// publishFrame publishes the changes of the picture. The caller holds c.mu.
func (c *Console) publishFrame(r *run) {
	if r.picture == nil {
		return
	}
	if f, ok := r.picture.frame(); ok {
		c.hub.publish("frame", f)
	}
}

// snapshot returns everything so far. The caller holds c.mu.
func (c *Console) snapshot() Snapshot {
	s := Snapshot{Run: c.run, Compared: c.compared}
	if c.run != nil && c.run.picture != nil {
		f := c.run.picture.whole()
		s.Frame = &f
	}
	return s
}

// stopRun stops the current run, and waits until it has ended.
func (c *Console) stopRun() {
	c.mu.Lock()
	r := c.run
	c.mu.Unlock()
	if r != nil {
		r.stop()
		<-r.done
	}
}
