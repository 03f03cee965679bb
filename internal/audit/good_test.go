package audit

import (
	"fmt"
	"time"

	"lastitem/internal/api"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// row is an order row of the test product, created n milliseconds after noon.
func row(id string, quantity, remaining int64, key string, n int) api.Order {
	return api.Order{
		OrderID: id, ProductID: 101, Quantity: quantity, Remaining: &remaining, Mode: "m", Store: api.SQL,
		Replica: fmt.Sprint(1 + n%3), Key: key, CreatedAt: noon.Add(time.Duration(n) * time.Millisecond),
	}
}

func op(out Outcome, call, ret, quantity int64, id, key string) Op {
	o := Op{
		Outcome: out, Call: call, Return: ret, ProductID: 101, Quantity: quantity, OrderID: id, Key: key,
		Replica: fmt.Sprint(1 + call%3),
	}
	switch out {
	case Refused:
		o.Code = api.SoldOut
	case Declined:
		o.Code = api.LockBusy
	}
	return o
}

// good is a run that is exact: 10 units sold over three replicas, with a replay, three unknown requests of which two
// happened, one that was declined, and refusals that only the moment of their return justifies.
func good() Input {
	replay := op(OK, 50, 60, 1, "o4", "k4")
	replay.Replayed = true
	return Input{
		Mode: "m", Store: api.SQL, Replicas: 3, WantSoldOut: true,
		History: []Op{
			op(OK, 0, 10, 1, "o1", ""),
			op(OK, 5, 15, 1, "o2", ""),
			op(OK, 12, 30, 2, "o3", ""),
			op(OK, 20, 40, 1, "o4", "k4"),
			replay,
			op(Unknown, 55, 0, 1, "", "k5"),
			op(Unknown, 62, 0, 3, "", ""),
			op(Unknown, 63, 0, 1, "", ""),
			op(Declined, 64, 70, 1, "", ""),
			op(Refused, 65, 78, 2, "", ""),
			op(OK, 80, 100, 1, "o7", ""),
			op(Refused, 95, 110, 1, "", "k6"),
		},
		Ledger: &api.Ledger{
			ProductID: 101,
			Initial:   map[api.Store]int64{api.SQL: 10, api.Redis: 10},
			Stock:     map[api.Store]int64{api.SQL: 0, api.Redis: 10},
			Orders: []api.Order{
				row("o1", 1, 9, "", 1), row("o2", 1, 8, "", 2), row("o3", 2, 6, "", 3), row("o4", 1, 5, "k4", 4),
				row("o5", 1, 4, "k5", 5), row("o6", 3, 1, "", 6), row("o7", 1, 0, "", 7),
			},
			Keys: []api.KeyRow{{Key: "k4", Status: 200}, {Key: "k5", Status: 200}, {Key: "k6", Status: 409}},
		},
	}
}

// The places of the good history that the mutants touch.
const (
	firstOK     = 0
	keyedOK     = 3
	theReplay   = 4
	keyedGone   = 5
	theDeclined = 8
	earlyNo     = 9
	lastOK      = 10
	lastNo      = 11
)
