package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"lastitem/stack/wire"
	"lastitem/target"
)

// visit is a buyer of a service whose purchase takes several steps.
type visit struct {
	*target.Visit
	err error // why he could not be arranged
}

// buyersEach is how many buyers are arranged at each replica before a request is held. Those who come later are
// arranged when they ask: then the request that is held may be in their way.
const buyersEach = 2

// arrangeWithin is how long a buyer may take to be arranged while a fault is at work.
const arrangeWithin = 5 * time.Second

// via is how a buyer reaches a replica. It follows no redirect: a visit does that, and keeps the cookies.
func (l *Lane) via(to string) target.Via { return l.viaWithin(context.Background(), to) }

func (l *Lane) viaWithin(ctx context.Context, to string) target.Via {
	client := *l.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return target.Via{Base: to, Do: func(c target.Call) (target.Reply, error) { return c.Send(ctx, &client, to) }}
}

// arrange prepares buyers at each replica, once in a scene, if the service wants it. What the replicas send for them
// belongs to no request of the scene. An error shows an answer that was not expected.
func (s *Scene) arrange(ctx context.Context) error {
	if s.Lane.Service.Visit == nil || s.spare != nil {
		return nil
	}
	s.spare = map[*Actor][]*visit{}
	actors := s.Lane.actors()
	all, errs := make([][]*visit, len(actors)), make([]error, len(actors))
	var wg sync.WaitGroup
	for i, a := range actors {
		wg.Go(func() {
			for range buyersEach {
				v := s.newVisit(ctx, a.URL)
				all[i], errs[i] = append(all[i], v), errors.Join(errs[i], v.err)
			}
		})
	}
	wg.Wait()
	for i, a := range actors {
		s.spare[a] = all[i]
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("faultlab: a buyer could not be arranged: %w", err)
	}
	if err := s.Lane.answered(ctx); err != nil {
		return err
	}
	if err := s.Lane.quiet(ctx, settling, time.Now().Add(workWithin)); err != nil {
		return err
	}
	s.since = wire.LastID()
	return nil
}

// newVisit arranges a buyer at a replica.
func (s *Scene) newVisit(ctx context.Context, to string) *visit {
	v := &visit{Visit: s.Lane.Service.Visit(s.ask.Ask)}
	v.err = v.Arrange(s.Lane.viaWithin(ctx, to))
	return v
}

// visitor returns the buyer with a key, and his key: the one who has it already, if he has come to his last step, which
// is then repeated. A buyer who was lost on his way there begins anew, as another.
func (s *Scene) visitor(to string, a *Actor, key string) (string, *visit) {
	if v := s.visits[key]; v != nil {
		if v.AtLast() {
			return key, v
		}
		key = s.NewKey()
	}
	var v *visit
	if free := s.spare[a]; len(free) > 0 {
		v, s.spare[a] = free[0], free[1:]
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), arrangeWithin)
		defer cancel()
		v = s.newVisit(ctx, to)
	}
	v.SetKey(key)
	if s.visits == nil {
		s.visits = map[string]*visit{}
	}
	s.visits[key] = v
	return key, v
}
