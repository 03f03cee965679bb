package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"lastitem/contract/api"
	"lastitem/judge"
)

// Patience is how long clients wait for an answer, of the service and of its servers. A schedule holds answers for
// less: a client that gives up makes a lost reply of them.
const Patience = 55 * time.Second

// Shop is lastitem's own service, run from binary. What a replica does by itself is switched off (health, purges,
// sweeps), so that the wire carries requests only, and its clients wait longer than any schedule holds an answer.
func Shop(binary string) Service {
	return Service{
		Argv:    func(Launch, string) []string { return []string{binary, "serve"} },
		Env:     shopEnv,
		Ready:   shopReady,
		Reset:   shopReset,
		Request: shopRequest,
		Answer:  shopAnswer,
		Ledger:  shopLedger,
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
		"SHOP_HEALTH_INTERVAL=0", "SHOP_PURGE_INTERVAL=0", "SHOP_SWEEP=0",
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
	_, err := get(ctx, "http://"+addr+"/readyz")
	return err
}

func get(ctx context.Context, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	return send(req)
}

// send returns the body of a 2xx.
func send(req *http.Request) ([]byte, error) {
	res, err := probe.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("faultlab: %s %s: %w: %.300s", req.Method, req.URL.Path, statusError(res.StatusCode), body)
	}
	return body, err
}

// statusError is the status of an HTTP answer that is no success.
type statusError int

func (s statusError) Error() string { return strconv.Itoa(int(s)) + " " + http.StatusText(int(s)) }

func shopReset(ctx context.Context, l *Lane, r Reset) error {
	set := api.SetStock{Stock: r.Stock, Segments: max(0, r.Segments), Units: r.Segments < 0, PerBuyer: r.PerBuyer}
	if r.Rehold {
		set.Late = "rehold"
	}
	body, err := json.Marshal(set)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, fmt.Sprintf("%s/products/%d/stock", l.C.URL, r.Product),
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.Token)
	_, err = send(req)
	return err
}

func shopRequest(replica string, a Ask) (*http.Request, error) {
	if a.Kind != "" {
		return holdRequest(replica, a)
	}
	query := url.Values{"product_id": {strconv.FormatInt(a.Product, 10)},
		"wait_ms": {strconv.FormatInt(a.Wait.Milliseconds(), 10)}}
	if a.Store != "" {
		query.Set("store", string(a.Store))
	}
	if a.Buyer != "" {
		query.Set("buyer", a.Buyer)
	}
	req, err := http.NewRequest(http.MethodPost, replica+"/deduct_stock/"+a.Mode+"?"+query.Encode(), nil)
	if err == nil && a.Key != "" {
		req.Header.Set(api.HeaderKey, a.Key)
	}
	return req, err
}

// shopAnswer reads an answer by the contract: whatever says nothing about what happened is unknown.
func shopAnswer(res *http.Response, body []byte) judge.Op {
	op := judge.Op{Outcome: judge.Unknown, Replica: res.Header.Get(api.HeaderReplica),
		Replayed: res.Header.Get(api.HeaderReplayed) == "true"}
	if res.StatusCode == http.StatusOK {
		var d api.Deduction
		if json.Unmarshal(body, &d) == nil && d.OrderID != "" {
			op.Outcome, op.OrderID, op.Remaining = judge.OK, d.OrderID, d.Remaining
		}
		return op
	}
	var p api.Problem
	if json.Unmarshal(body, &p) != nil {
		return op
	}
	op.Code = p.Code
	switch facts, known := api.Codes[p.Code]; {
	case !known || facts.Happened == api.Unknown:
	case p.Code == api.SoldOut:
		op.Outcome = judge.Refused
	default:
		op.Outcome = judge.Declined
	}
	return op
}

// shopLedger reads the first page, which holds every row of the few that a schedule makes.
func shopLedger(ctx context.Context, l *Lane) (*api.Ledger, error) {
	body, err := get(ctx, fmt.Sprintf("%s/products/%d/ledger", l.C.URL, l.Product()))
	if err != nil {
		return nil, err
	}
	ledger := new(api.Ledger)
	return ledger, json.Unmarshal(body, ledger)
}

// Modes asks a replica of the shop for its modes.
func Modes(ctx context.Context, replica string) ([]api.Mode, error) {
	body, err := get(ctx, replica+"/modes")
	if err != nil {
		return nil, err
	}
	var all api.Modes
	return all.Modes, json.Unmarshal(body, &all)
}
