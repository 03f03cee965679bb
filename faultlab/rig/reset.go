package rig

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lastitem/faultlab/rig/gear"
	"lastitem/judge"
	"lastitem/stack/wire"
	"lastitem/target"
)

// NewScene resets the lane and begins a schedule.
func (l *Lane) NewScene(ctx context.Context, ask Ask) (*Scene, error) {
	if err := l.Reset(ctx, ask); err != nil {
		return nil, err
	}
	return l.scene(ask), nil
}

func (l *Lane) scene(ask Ask) *Scene {
	ask.Product = l.Product()
	s := &Scene{Lane: l, ask: ask, diary: diary{began: time.Now()}, since: wire.LastID()}
	s.Reservations.scene, s.Tickets.scene = s, s
	if visit := l.Service.Visit; visit != nil {
		s.buyers = buyers{client: l.client, begin: func() *target.Visit { return visit(ask.Product, ask.Quantity, "") }}
	}
	return s
}

// Reset sets the stock and clears the history. Before that it restarts dead replicas and has every replica serve one
// request of the same kind, so that connections are open and scripts are loaded.
func (l *Lane) Reset(ctx context.Context, ask Ask) error {
	l.inOrder()
	if err := l.Heal(ctx); err != nil {
		return err
	}
	if kind := ask.Mode + " " + string(ask.Store); l.Warm != kind || ask.Session {
		if err := l.warmUp(ctx, ask); err != nil {
			// A command that came late may have left a lock that lives as long as its process does.
			l.Abandon()
			if err := errors.Join(l.Heal(ctx), l.warmUp(ctx, ask)); err != nil {
				return err
			}
		}
		l.Warm = kind
	}
	if consumes(l) {
		if err := restConsumers(ctx, l); err != nil {
			return err
		}
	}
	last := wire.LastID()
	for _, a := range l.actors() {
		if a.turns != nil && l.Sweeps() {
			if err := a.Rest(ctx); err != nil {
				return err
			}
		}
		a.Forget(last)
	}
	err := l.set(ctx, ask)
	if err == nil || !l.Service.Waits || ctx.Err() != nil {
		return err
	}
	l.Abandon() // a connection may have kept a transaction, and with it the product's row
	if err := l.Heal(ctx); err != nil {
		return err
	}
	if err := l.warmUp(ctx, ask); err != nil {
		return err
	}
	l.Warm = ask.Mode + " " + string(ask.Store)
	return l.set(ctx, ask)
}

// set sets the stock of the product.
func (l *Lane) set(ctx context.Context, ask Ask) error {
	to := ask.Set
	to.Stock = ask.Stock
	to.PerBuyer, to.Extends = ask.PerBuyer, ask.About.Extends
	if ask.About.Rehold {
		to.Late = "rehold"
	}
	l.initial = ask.Stock
	limited, cancel := context.WithTimeout(ctx, l.Service.learnt.resetWithin())
	defer cancel()
	began := time.Now()
	err := l.Service.Reset(limited, l.site(), to)
	if err == nil && ask.About.Cart {
		err = l.site().shop().SetStock(limited, other(l), to)
	}
	if err == nil {
		l.Service.learnt.resetTook(time.Since(began))
	}
	if err != nil || !ask.ReserveFirst || ask.About.Kind != "" {
		return err
	}
	return l.reserveOnce(ctx, ask)
}

// warmWithin is how long the first answer of a replica may take, in addition to twice the lane's TTL: an old lock or
// session may have to expire first.
const warmWithin = 5 * time.Second

// warmUp has every replica serve one request.
func (l *Lane) warmUp(ctx context.Context, ask Ask) error {
	ask.Stock, ask.PerBuyer = Stock, 0
	if err := l.set(ctx, ask); err != nil {
		return err
	}
	s := l.scene(ask)
	for _, a := range l.actors() {
		for end := time.Now().Add(warmWithin + 2*l.TTL + ask.Outlive); ; {
			asked := time.Now()
			p := s.Ask(a, s.NewKey())
			if err := p.Wait(ctx); err != nil {
				return err
			}
			if p.op.Outcome == judge.OK {
				l.Service.learnt.took(time.Since(asked))
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("faultlab: %s does not serve %s without any fault: %s %s%s", a.Name, ask.Mode, p.op.Outcome,
					p.op.Code, p.shown)
			}
			time.Sleep(50 * time.Millisecond) // a new session may have to begin, or an old one to end
		}
		if l.Service.Whole == nil {
			continue
		}
		if err := gear.Until(ctx, a.Name+" to serve "+ask.Mode+" with all its servers", func() bool {
			return l.Service.Whole(ctx, a.run.Addr, ask.Mode) == nil
		}); err != nil {
			return err
		}
	}
	return l.Quiesce(ctx)
}

// reserveOnce makes a reservation and cancels it: see ReserveFirst of [Ask].
func (l *Lane) reserveOnce(ctx context.Context, ask Ask) error {
	s := l.scene(ask)
	h, err := s.Reservations.Reserve(ctx, l.C, Long)
	if err != nil {
		return err
	}
	return s.Reservations.Ask(l.C, judge.Cancel, h, 0).Wait(ctx)
}
