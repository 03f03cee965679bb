package plan

import (
	"time"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// Suits says whether a mode is one that the plan is made for: one that reserves, one that breaks a limit per buyer, or
// any other; of a plan with segments, one that knows them.
func (p Plan) Suits(m api.Mode) bool {
	return p.Reserving.On() == m.Reserves && (p.Follow == 0 || m.Tickets) && (m.Reserves ||
		m.BreaksLimit() == (p.Reserving.PerBuyer > 0)) &&
		(p.Segments == 0 || m.Segments > 0)
}

// mostUnits is the most stock of a plan that adapts where each unit has a row, which has to be written first.
const mostUnits = 50_000

// For returns the plan for a mode: where it adapts, a reservation is paid at once, a mode that counts the orders of a
// buyer gets buyers, and one with a row per unit has fewer units.
func (p Plan) For(m api.Mode) Plan {
	if !p.Adapts {
		return p
	}
	if m.Units {
		p.Stock = min(p.Stock, mostUnits)
	}
	if m.Reserves {
		p.Reserving = Reserving{For: time.Minute, Pays: 1}
	}
	if m.BreaksLimit() {
		p.Reserving.PerBuyer = 1
	}
	return p
}

// Fits returns why the plan, with its defaults, cannot run against the mode, for instance because the mode has no
// segments; nil if it can.
func Fits(m api.Mode, p Plan) error {
	p = p.WithDefaults()
	if err := p.Validate(); err != nil {
		return err
	}
	switch {
	case p.Reserving.On() && !m.Reserves:
		return Fault(text.Of("mode %s does not reserve: leave out --plan reserve"), m.Name)
	case !p.Reserving.On() && m.Reserves:
		return Fault(text.Of("mode %s reserves: use --plan reserve"), m.Name)
	}
	if p.Follow > 0 && !m.Tickets {
		return Fault(text.Of("mode %s sells without tickets: leave out --follow and --plan tickets"), m.Name)
	}
	switch limit := p.Reserving.PerBuyer > 0; {
	case limit && !m.PerBuyer && !m.Reserves:
		return Fault(text.Of("mode %s knows no limit per buyer: leave out --per-buyer"), m.Name)
	case !limit && m.BreaksLimit():
		return Fault(text.Of("mode %s breaks a limit per buyer: use --plan limit"), m.Name)
	}
	// Every other mode answers 409 on a segmented product, so the run would only measure refusals.
	if p.Segments > 0 && m.Segments == 0 {
		return Fault(text.Of("mode %s knows no segments: leave out --segments"), m.Name)
	}
	if p.Adjust > 0 && !m.Adjusts {
		return Fault(text.Of("mode %s claims nothing for a stock that is adjusted while it sells: leave out --adjust"),
			m.Name)
	}
	if p.Store != "" && !m.Baseline && m.Claims[p.Store] == nil {
		return Fault(text.Of("mode %s does not keep its stock in %s: leave out --store"), m.Name, p.Store)
	}
	if p.Retry > 0 && !p.RetryUnsafe && !m.Baseline && !m.Reserves && m.Claim(p.StoreOf(m), api.Retry) != api.Exact {
		return Fault(text.Of("mode %s keeps no idempotency keys, a retry may deduct twice: leave out --retry, or add "+
			"--retry-unsafe"), m.Name)
	}
	return nil
}

// StoreOf returns the store of the plan's requests; "" for a baseline.
func (p Plan) StoreOf(m api.Mode) api.Store {
	if p.Store != "" || len(m.Stores) == 0 {
		return p.Store
	}
	return m.Stores[0]
}
