package stock

import (
	"lastitem/contract/ledger"
	"lastitem/internal/store/sqldb"
	"lastitem/say/text"
)

// reserveNaive holds as reserve-sql does, but a confirm, a cancel and the sweep first read the state and then write it,
// as code does that loads an entity, checks a field and saves it. Two that have read "held" both go on: the units come
// back twice, or a paid reservation expires.
//
//	cancel         read: held ─────────────────── state = cancelled, stock + 1
//	cancel again      read: held ────────────────────── state = cancelled, stock + 1     one unit too many
var reserveNaive = Mode{
	Name:     "reserve-naive",
	Title:    text.Of("hold: conditional; confirm, cancel and sweep read the state, then write it"),
	Needs:    []Backend{NeedSQL},
	Stores:   []Store{SQL},
	Cart:     true,
	Reserves: true,
	Way:      &byCounterTrusting,
	Adjusts:  true,
	Claims: map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: "–", Late: "–", Pause: ".", Crash: ".", Failover: "–", Retry: "O",
			LateWrite: "O", Expiry: "O"},
	},
	New: func(d Deps) (Deductor, error) { return reserving{d, byCounterTrusting}, nil },
}

var byCounterTrusting = sqldb.Way{Act: ledger.Reserve, Take: takeOfRun, Give: giveToRun, Trusting: true}
