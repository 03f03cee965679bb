package rig

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/testkit"
)

// What a client sends about a reservation: the key is the payment's id, and a cancel has none.
func TestHoldRequest(t *testing.T) {
	t.Parallel()
	ask := Ask{Mode: "reserve-sql", Product: 101, Hold: "sql-101-x", For: Brief, Key: "k"}
	for kind, want := range map[judge.HoldKind][3]string{
		judge.Reserve: {"/reserve_stock/reserve-sql", "k", `{"product_id":101,"hold_ms":100}`},
		judge.Confirm: {"/reservations/sql-101-x/confirm", "k", ""},
		judge.Cancel:  {"/reservations/sql-101-x/cancel", "", ""},
	} {
		ask.Kind = kind
		req, err := shopRequest("http://a", ask)
		testkit.Must(t, err)
		body, err := io.ReadAll(req.Body)
		testkit.Must(t, err)
		got := [3]string{req.URL.Path, req.Header.Get(api.HeaderKey), string(body)}
		if got != want || req.Method != http.MethodPost {
			t.Errorf("%s: %s %q, want %q", kind, req.Method, got, want)
		}
	}
}

// Answers about a reservation are read by the contract: an answer that leaves the outcome open is unknown, and nobody
// refunds on it.
func TestHoldAnswer(t *testing.T) {
	t.Parallel()
	until := time.UnixMilli(1_700_000_000_000).UTC()
	made := `{"reservation_id":"sql-1-x","state":"%","expires_at":"` + until.Format(time.RFC3339) + `"}`
	for name, c := range map[string]struct {
		status  int
		body    string
		outcome judge.Outcome
		want    judge.HoldOp
		made    Reservation
	}{
		"made": {201, made, judge.OK, judge.HoldOp{HoldID: "sql-1-x"}, Reservation{"sql-1-x", until}},
		"confirmed": {200, `{"reservation_id":"h","order_id":"o","refund":false}`, judge.OK,
			judge.HoldOp{HoldID: "h", OrderID: "o"}, Reservation{ID: "h"}},
		"expired, cancelled after it": {200, `{"reservation_id":"h","state":"expired"}`, judge.OK,
			judge.HoldOp{HoldID: "h", Expired: true}, Reservation{ID: "h"}},
		"too late": {410, `{"code":"reservation_expired","refund":true,"state":"expired"}`, judge.Refused,
			judge.HoldOp{HoldID: "h", Refund: true, Expired: true}, Reservation{}},
		"sold out": {409, `{"code":"sold_out"}`, judge.Refused, judge.HoldOp{HoldID: "h"}, Reservation{}},
		"contended": {503, `{"code":"contended","refund":"unknown"}`, judge.Declined, judge.HoldOp{HoldID: "h"},
			Reservation{}},
		"unknown": {504, `{"code":"outcome_unknown","refund":"unknown"}`, judge.Unknown, judge.HoldOp{HoldID: "h"},
			Reservation{}},
		"no JSON": {502, `<html>`, judge.Unknown, judge.HoldOp{HoldID: "h"}, Reservation{}},
	} {
		got := holdAnswer(&http.Response{StatusCode: c.status, Header: http.Header{}}, []byte(c.body), Ask{Hold: "h"})
		if got.op.Outcome != c.outcome || got.made != c.made || !cmp.Equal(got.hold, c.want) {
			t.Errorf("%s: %s %+v %+v, want %s %+v %+v", name, got.op.Outcome, got.hold, got.made, c.outcome, c.want, c.made)
		}
	}
}

// A and C sweep, and only on a lane that wants it.
func TestTwoSweepers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sweeps bool
		name   string
		want   int
	}{{true, "A", 2}, {true, "B", 1}, {true, "C", 2}, {false, "C", 1}} {
		a := &Actor{Name: c.name, lane: &Lane{sweeps: c.sweeps, settings: []string{"X=1"}}}
		if got := a.settings(); len(got) != c.want {
			t.Errorf("%s on a lane that sweeps: %t has the settings %q", c.name, c.sweeps, got)
		}
	}
}
