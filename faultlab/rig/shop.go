package rig

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"lastitem/contract/api"
	"lastitem/target"
)

// Patience is how long clients wait for an answer, of the service and of its servers. A schedule holds answers for
// less: a client that gives up makes a lost reply of them.
const Patience = 55 * time.Second

// Shop is lastitem's own service, run from binary. What a replica does by itself is switched off (health, purges,
// sweeps), so that the wire carries requests only, and its clients wait longer than any schedule holds an answer.
func Shop(binary string) Service {
	return Service{
		Argv:  func(Launch, string) []string { return []string{binary, "serve"} },
		Env:   shopEnv,
		Ready: shopReady,
		Whole: shopWhole,
		Reset: func(ctx context.Context, at Site, to api.SetStock) error {
			return at.shop().SetStock(ctx, at.Product(), to)
		},
		Call:   target.Ask.Call,
		Read:   target.Read,
		Ledger: func(ctx context.Context, at Site) (*api.Ledger, error) { return at.shop().Ledger(ctx, at.Product()) },
	}
}

func shopEnv(l Launch, addr string) []string {
	env := []string{
		"SHOP_LISTEN=" + addr,
		"SHOP_REPLICA=" + l.Actor,
		"SHOP_ADMIN_TOKEN=" + l.Token,
		"SHOP_REDIS_PREFIX=lane" + strconv.Itoa(l.Lane) + ":",
		"SHOP_LOCK_TTL=" + l.TTL.String(),
		"SHOP_CONNS=8",
		"SHOP_HEALTH_INTERVAL=0", "SHOP_PURGE_INTERVAL=0", "SHOP_SWEEP=0", "SHOP_TICKET_CONSUME=false",
		"GOMAXPROCS=2", "GOGC=400",
	}
	for _, patient := range []string{"WORK", "REDIS", "SQL", "SETTLE", "ETCD", "CONSUL"} {
		env = append(env, "SHOP_"+patient+"_TIMEOUT="+l.Patience.String())
	}
	for name, to := range l.URLs {
		env = append(env, name+"="+to)
	}
	return env
}

// probe is the client for everything that is no part of a schedule.
var probe = &http.Client{Timeout: Patience}

func shopReady(ctx context.Context, addr string) error {
	_, err := target.Call{Method: http.MethodGet, Path: "/readyz"}.Fetch(ctx, probe, "http://"+addr)
	return err
}

func shopWhole(ctx context.Context, addr, mode string) error {
	modes, err := (&target.Shop{URL: "http://" + addr, Client: probe}).Modes(ctx)
	for _, m := range modes {
		if m.Name == mode && m.Why != "" {
			return errors.New(m.Why)
		}
	}
	return err
}

// shop is a replica of the shop, with the admin token.
func (s Site) shop() *target.Shop {
	return &target.Shop{URL: s.URL, Token: s.Stack.Token, Client: probe}
}
