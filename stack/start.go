package stack

import (
	"context"
	"errors"
	"fmt"

	"lastitem/say/text"
	"lastitem/stack/keeper"
)

// Start brings a stack up and returns when every part answers. ctx bounds the start only: the stack lives until Close,
// or until this process ends. When Start fails it has cleaned up after itself.
func Start(ctx context.Context, o Options) (*Stack, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Stack{Token: o.Token, opts: o, done: make(chan struct{})}
	if o.RTT > 0 {
		s.opts.Via = s.delays.via(o.RTT)
	}
	owner, err := keeper.Start(o.Binary, s.died)
	if err != nil {
		return nil, err
	}
	s.procs.keeper, s.procs.opts, s.Dir = owner, &s.opts, owner.Dir
	if o.LastCommand != nil {
		if err := owner.Last(append([]string{o.Binary}, o.LastCommand...), o.LastCommandEnv); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if o.RTT > 0 {
		s.delays.log(&s.opts, s.servers())
	}
	return s, nil
}

// start brings up the backends side by side, then the replicas side by side, then the balancer.
func (s *Stack) start(ctx context.Context) error {
	backends := make([]func(context.Context) error, len(s.opts.Only))
	for i, name := range s.opts.Only {
		backends[i] = func(ctx context.Context) error {
			switch name {
			case Redis:
				return s.startRedis(ctx)
			case MySQL:
				return s.startSQL(ctx)
			case Postgres:
				return s.startPostgres(ctx)
			}
			return s.startExtra(ctx, name)
		}
	}
	if err := together(ctx, backends); err != nil {
		return err
	}
	if s.opts.Replicas == 0 {
		return nil
	}
	s.Replicas = make([]Service, s.opts.Replicas)
	replicas := make([]func(context.Context) error, s.opts.Replicas)
	for i := range replicas {
		replicas[i] = func(ctx context.Context) error { return s.startReplica(ctx, i) }
	}
	if err := together(ctx, replicas); err != nil {
		return err
	}
	return s.startBalancer(ctx)
}

// Close ends every part and removes the private directory; the user's own servers are left alone. Replicas have two
// seconds to finish their requests. It may be repeated.
func (s *Stack) Close() error {
	defer s.delays.close()
	return s.procs.keeper.Close()
}

// died is told that p, or with p nil the keeper, has ended.
func (s *Stack) died(p *keeper.Process, how string) {
	var lost text.Text
	if p != nil && s.opts.Restart {
		x, ok := s.procs.named(p.Name)
		switch {
		case ok && x.sv.loses.En == "":
			go s.procs.revive(x, how)
			return
		case ok:
			lost = text.Of(" (not started again: %s)").With(x.sv.loses)
		}
	}
	s.once.Do(func() {
		if p == nil {
			s.err = fmt.Errorf("%w (%s)", keeper.ErrGone, how)
		} else {
			s.err = text.Of("stack: %s has died: %s%s%s").Errorf(p.Name, how, lost, p.Log.Tail())
		}
		close(s.done)
	})
}
