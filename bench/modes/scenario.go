package main

import (
	"fmt"
	"slices"
	"time"

	"lastitem/contract/api"
	"lastitem/loadtest/plan"
)

// scenario is one table: a load and its target.
type scenario struct {
	name, title string
	balanced    bool    // through nginx to all replicas; else directly to one replica
	far         bool    // from the servers: see distance
	soldOut     bool    // one unit of stock: the refusals are measured
	entries     []entry // nil = every mode, with one product
}

// entry is one row: a mode, and the products that it sells.
type entry struct {
	mode     string
	products int
	segments int // 0 = as many as the mode wants
}

func (e entry) String() string {
	if e.products > 1 {
		return fmt.Sprintf("%s, %d products", e.mode, e.products)
	}
	return e.mode
}

// many is the number of products or segments that the far scenario spreads the load over.
const many = 10

var (
	oneLock     = entry{mode: "handoff", products: 1}
	segments    = entry{mode: "segmented", products: 1, segments: many}
	perProduct  = entry{mode: "handoff", products: many}
	allProducts = entry{mode: "global-lock", products: many}
)

// The scenarios, in the order of the tables. The targets and the picture use their names.
const (
	direct   = "direct"
	balanced = "nginx"
	refusals = "refusals"
	far      = "far"
)

var scenarios = []scenario{
	{name: direct, title: "one replica, direct, one product"},
	{name: balanced, title: "three replicas behind nginx, one product", balanced: true},
	{name: refusals, title: "one replica, direct, one product of which there is one unit: sold out", soldOut: true},
	{name: far, title: "one replica, direct, Redis and SQL 1 ms away in each direction", far: true,
		entries: []entry{oneLock, segments, perProduct, allProducts, one("sql-atomic"), one("sql-one-trip"), one("queue"),
			one("reserve-sql"), one("reserve-unit")}},
}

// distance is the delay of a far server, in each direction.
const distance = time.Millisecond

// The load's fixed parts.
const (
	product = 101
	// plenty is more than any mode sells in a window, and the most that the shop accepts.
	plenty = 1_000_000_000
	// plentyUnits is the same where each unit has a row, which has to be written first.
	plentyUnits = 50_000
	// patience is how long a request waits for a lock; the last requests of a window wait that long too.
	patience = time.Second
	warmup   = 300 * time.Millisecond
)

// plan returns the load of one window.
func (s scenario) plan(m api.Mode, e entry, o options) plan.Plan {
	p := plan.Plan{
		Name: s.name, VUs: o.clients, Duration: s.length(o.window), Warmup: warmup, Wait: patience,
		Product: product, Products: e.products, Segments: e.segments, Stock: plenty, Engine: plan.EngineRaw,
	}
	if m.Units {
		p.Stock = plentyUnits
	}
	if m.Reserves { // a sale is a reservation that is paid at once
		p.Reserving = plan.Reserving{For: time.Minute, Pays: 1}
	}
	if m.BreaksLimit() { // it counts the orders of a buyer
		p.Reserving.PerBuyer = 1
	}
	if s.soldOut {
		p.Stock = 1
	}
	return p
}

// length returns the length of a window. Refusals come at an even rate, so they need less time.
func (s scenario) length(window time.Duration) time.Duration {
	if s.soldOut {
		return window / 2
	}
	return window
}

// rows returns the rows of the scenario, and the skipped ones with the reason.
func (s scenario) rows(there []api.Mode, wanted func(mode string) bool) (run []entry, not []skipped) {
	entries := s.entries
	if entries == nil {
		for _, m := range there {
			entries = append(entries, entry{mode: m.Name, products: 1})
		}
	}
	for _, e := range entries {
		i := slices.IndexFunc(there, func(m api.Mode) bool { return m.Name == e.mode })
		switch {
		case !wanted(e.mode):
		case i < 0:
			not = append(not, skipped{e.String(), noSuchMode})
		case !there[i].Available:
			not = append(not, skipped{e.String(), there[i].Why})
		default:
			run = append(run, e)
		}
	}
	return run, not
}

// skipped is a row that is not run.
type skipped struct {
	Row string `json:"row"`
	Why string `json:"why"`
}

// noSuchMode is the reason for skipping a mode that this shop does not have.
const noSuchMode = "no such mode"
