package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	manual "lastitem/docs"
	"lastitem/faultlab"
	"lastitem/internal/api"
	"lastitem/internal/book"
	"lastitem/internal/console"
	"lastitem/internal/localstack"
	"lastitem/loadtest"
	"lastitem/loadtest/plan"
)

// playDriver makes the console's runs: the plan, the engine and the judge of 'shop demo', on a stack that stays.
type playDriver struct {
	url, token string   // of the stack's balancer
	replicas   []string // host:port
	rtt        time.Duration
	said       []string // by the stack about itself
	// markLogs is as in loadtest.Comparing; nil where the logs are out of reach.
	markLogs func() (since func(n int) []string)
	local    bool // the stack is this process's own, so that there may be more servers beside it
}

// driverOf drives a private stack.
func driverOf(s *localstack.Stack, rtt time.Duration, said []string) *playDriver {
	d := &playDriver{url: s.URL, token: s.Token, rtt: rtt, said: said, markLogs: s.MarkLogs, local: true}
	for _, r := range s.Replicas {
		d.replicas = append(d.replicas, r.Addr)
	}
	return d
}

// Modes lists the modes of the stack.
func (d *playDriver) Modes(ctx context.Context) ([]api.Mode, error) {
	control, err := loadtest.NewControl(d.url, d.token)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	return control.Modes(ctx)
}

// Product is the one that the demo sells.
func (d *playDriver) Product() int64 { return demoPlan().Product }

// demoPlan is the plan of 'shop demo'.
func demoPlan() loadtest.Plan {
	plans, _ := plan.Named("demo")
	return plans[0]
}

// Drive runs the modes of a spec through loadtest.Compare.
func (d *playDriver) Drive(ctx context.Context, spec console.Spec, report func(console.Step)) error {
	p := demoPlan()
	p.VUs, p.Stock, p.Requests = spec.Clients, spec.Stock, 0
	if err := p.Validate(); err != nil {
		return err
	}
	url, closeURL, err := d.address(ctx, spec.Replicas)
	if err != nil {
		return err
	}
	defer closeURL()
	what := loadtest.Comparing{
		Version: version(), Plans: []loadtest.Plan{p.WithDefaults()}, Replicas: spec.Replicas, RTT: d.rtt, Stack: d.said,
		MarkLogs: d.markLogs, Progress: func(s loadtest.Step) { report(playStep(s)) },
	}
	s := service{url: url, token: d.token, replicas: spec.Replicas, lang: spec.Lang}
	if err := s.fill(ctx, &what, strings.Join(spec.Modes, ",")); err != nil {
		return err
	}
	c, err := loadtest.Compare(ctx, what)
	if err != nil {
		return err
	}
	if len(c.Results) == 0 && len(c.Failed) == 0 && len(c.Skipped) > 0 {
		return fmt.Errorf("%s: %s", c.Skipped[0].Mode, c.Skipped[0].Why)
	}
	return nil
}

// address is where the requests of a run go: to the stack's balancer, or, where fewer replicas are wanted than there are, to one in this
// process.
func (d *playDriver) address(ctx context.Context, replicas int) (url string, closing func(), err error) {
	switch {
	case replicas == len(d.replicas):
		return d.url, func() {}, nil
	case replicas == 1:
		return "http://" + d.replicas[0], func() {}, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = serveUntil(ctx, l, localstack.NewBalancer(d.replicas[:replicas]))
	}()
	return "http://" + l.Addr().String(), func() { cancel(); <-ended }, nil
}

// playStep translates a step of a comparison.
func playStep(s loadtest.Step) console.Step {
	step := console.Step{Index: s.Index, Total: s.Total, Mode: s.Mode, Phase: console.PhaseReset, Ended: s.Done}
	if p := s.Running; p != nil {
		step.Phase, step.Done = string(p.Phase), p.Done
		step.Accepted, step.Refused, step.Failed = p.Accepted, p.Refused, p.Failed
	}
	if s.Result != nil {
		step.Result = s.Result
	}
	if s.Err != nil {
		step.Error = s.Err.Error()
	}
	if s.Done {
		step.Phase = ""
	}
	return step
}

// matrixPage is the body of GET /console/api/matrix.
type matrixPage struct {
	Hazards []faultlab.Hazard `json:"hazards"`
	Cells   []faultlab.Cell   `json:"cells"`
}

// witnessPage is the body of GET /console/api/witness: the cell and, where something broke it, the schedule with its recorded story.
type witnessPage struct {
	Cell     faultlab.Cell      `json:"cell"`
	Schedule *faultlab.Schedule `json:"schedule,omitempty"`
	Tale     *faultlab.Tale     `json:"tale,omitempty"`
}

// playFacts are the committed findings of the fault lab, and the documentation.
func playFacts() (console.Facts, error) {
	matrix, err := faultlab.Committed()
	if err != nil {
		return console.Facts{}, err
	}
	tales, err := faultlab.Tales()
	if err != nil {
		return console.Facts{}, err
	}
	pages, err := book.New(manual.Files())
	if err != nil {
		return console.Facts{}, err
	}
	byName := map[string]*faultlab.Tale{}
	for i, t := range tales {
		byName[t.Schedule] = &tales[i]
	}
	page := matrixPage{Hazards: faultlab.Hazards()}
	for _, c := range matrix.Cells {
		c.Witnesses = nil // one by one, with their stories
		page.Cells = append(page.Cells, c)
	}
	return console.Facts{Matrix: page, Book: pages, Witness: func(w console.Witness) (any, bool) {
		c, there := matrix.Cell(w.Mode, api.Store(w.Store), api.Hazard(w.Fault))
		if !there {
			return nil, false
		}
		found := witnessPage{Cell: c}
		found.Cell.Witnesses = nil
		if w.Letter == "" {
			return found, c.Found == api.Exact
		}
		s, there := c.Witnesses[w.Letter]
		if there {
			found.Schedule, found.Tale = &s, byName[s.String()]
		}
		return found, there
	}}, nil
}
