package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"lastitem/target"
)

// buyers are those of one scene, of a service whose purchase takes several steps.
type buyers struct {
	begin  func() *target.Visit // nil = a purchase is one request
	client *http.Client
	known  map[string]*target.Visit   // those who have asked, by key
	spare  map[string][]*target.Visit // and those who have not, by the replica at which they were arranged
}

// buyersEach is how many buyers are arranged at each replica before a request is held. Those who come later are
// arranged when they ask: then the request that is held may be in their way.
const buyersEach = 2

// arrangeWithin is how long a buyer may take to be arranged while a fault is at work.
const arrangeWithin = 5 * time.Second

// via is how a buyer reaches a replica. It follows no redirect: a visit does that, and keeps the cookies.
func via(ctx context.Context, client *http.Client, to string) target.Via {
	once := *client
	once.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return target.Via{Base: to, Do: func(c target.Call) (target.Reply, error) { return c.Send(ctx, &once, to) }}
}

// arrange prepares buyers at replicas, once in a scene, and says whether it did. An error shows an answer that was not
// expected.
func (b *buyers) arrange(ctx context.Context, replicas ...string) (did bool, err error) {
	if b.begin == nil || b.spare != nil {
		return false, nil
	}
	all, errs := make([][]*target.Visit, len(replicas)), make([]error, len(replicas))
	var wg sync.WaitGroup
	for i, to := range replicas {
		wg.Go(func() {
			for range buyersEach {
				v := b.begin()
				all[i], errs[i] = append(all[i], v), errors.Join(errs[i], v.Arrange(via(ctx, b.client, to)))
			}
		})
	}
	wg.Wait()
	b.spare = map[string][]*target.Visit{}
	for i, to := range replicas {
		b.spare[to] = all[i]
	}
	if err := errors.Join(errs...); err != nil {
		return true, fmt.Errorf("faultlab: a buyer could not be arranged: %w", err)
	}
	return true, nil
}

// take returns the buyer with a key, and his key: the one who has it already, if he has come to his last step, which is
// then repeated. If a buyer was lost on his way there, another buyer starts, with the key that fresh makes.
func (b *buyers) take(to, key string, fresh func() string) (string, *target.Visit) {
	if b.begin == nil {
		return key, nil
	}
	if v := b.known[key]; v != nil {
		if v.AtLast() {
			return key, v
		}
		key = fresh()
	}
	var v *target.Visit
	if free := b.spare[to]; len(free) > 0 {
		v, b.spare[to] = free[0], free[1:]
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), arrangeWithin)
		defer cancel()
		v = b.begin()
		_ = v.Arrange(via(ctx, b.client, to)) // his purchase shows why it failed
	}
	v.SetKey(key)
	if b.known == nil {
		b.known = map[string]*target.Visit{}
	}
	b.known[key] = v
	return key, v
}
