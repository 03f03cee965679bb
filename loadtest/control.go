package loadtest

import (
	"context"
	"net/http"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/loadtest/plan"
	"lastitem/say/text"
	"lastitem/target"
)

// warmProduct is the product that the warm-up sells, with an id far from those in use, and warmStock its stock,
// or warmUnits if each unit has a row.
const (
	warmProduct = 900_000_001
	warmStock   = 1_000_000_000
	warmUnits   = 10_000
)

// Control is a running lastitem, and what a judge must know of it.
type Control struct {
	*target.Shop
	// Replicas is how many processes are behind the address; 0 = not known. With one, the claim for threads is checked;
	// with more, the claim for replicas, and a run that a single replica served is vacuous. If it is not known, the number
	// of replicas that answered decides which claim is checked.
	Replicas int
	// Lang is the language of the judge's sentences: "zh", else English.
	Lang string

	insecure bool
}

// Trust makes the control and the load take every certificate.
func (c *Control) Trust() {
	c.insecure = true
	c.Client = &http.Client{Timeout: c.Client.Timeout, Transport: target.NewTransport(true)}
}

// NewControl returns the control of the service at an address: see [target.NewShop].
func NewControl(address, token string) (*Control, error) {
	shop, err := target.NewShop(address, token)
	return &Control{Shop: shop}, err
}

// newService returns a mode of lastitem.
func (c *Control) newService(p plan.Plan, m api.Mode) service {
	s := service{
		mode: m, address: c.URL, insecure: c.insecure, replicas: c.Replicas, lang: c.Lang, script: c.script(p, m),
		ready:  func(ctx context.Context, p *plan.Plan) error { return reset(ctx, c, m, *p) },
		warm:   func(ctx context.Context, d *driver) error { return warmUp(ctx, c, d, m) },
		ledger: c.Ledger,
		judge: func(in judge.Input, _ int64, b bookkeeping) judge.Report {
			report := judge.Judge(in)
			if b.err != nil {
				report.Missing = append(report.Missing, text.ErrorIn(c.Lang, b.err))
			}
			return report
		},
		reservations: c.Reservations,
	}
	if m.Tickets {
		s.ticket, s.tickets = c.following(p.Follow).Ticket, c.Tickets
	}
	return s
}

// following is the shop with as many connections as follow tickets, apart from those of the load.
func (c *Control) following(connections int) *target.Shop {
	shop, transport := *c.Shop, target.NewTransport(c.insecure)
	transport.MaxIdleConnsPerHost = max(1, connections)
	shop.Client = &http.Client{Timeout: c.Client.Timeout, Transport: transport}
	return &shop
}

// script is how one mode is asked. The deductions that name no buyer are made once; a request only picks one.
func (c *Control) script(p plan.Plan, m api.Mode) script {
	made := make([]target.Call, p.Products)
	for i := range made {
		made[i] = target.Ask{Mode: m.Name, Store: p.Store, Product: p.Product + int64(i), Quantity: p.Quantity,
			Wait: p.Wait}.Call()
	}
	return script{
		call: func(a target.Ask) target.Call {
			i := a.Product - p.Product
			if a.Kind != "" || a.Buyer != "" || i < 0 || i >= int64(len(made)) {
				return c.Call(a)
			}
			call := made[i]
			call.Key = a.Key
			return call
		},
		read: target.Read, keyed: p.Retry > 0 || m.KeyRequired, mode: m.Name, store: p.StoreOf(m), carts: m.Cart,
	}
}

// reset sets the stock of every product of the plan.
func reset(ctx context.Context, c *Control, m api.Mode, p plan.Plan) error {
	for i := range p.Products {
		if err := c.SetStock(ctx, p.Product+int64(i), settingOf(p, m, p.Stock)); err != nil {
			return err
		}
	}
	return setSecond(ctx, c, m, p)
}

// settingOf is how the stock of a product is set for the plan.
func settingOf(p plan.Plan, m api.Mode, stock int64) api.SetStock {
	setting := m.Setting(stock)
	if p.Segments > 0 {
		setting.Segments, setting.Units = p.Segments, false
	}
	setting.PerBuyer, setting.Late = p.Reserving.PerBuyer, p.Reserving.Late
	return setting
}

// warmUp sells the warm-up product for the plan's warm-up time, and deletes its orders. It opens the connections, fills
// the service's pools and script caches and wakes the processors, so that the figures do not include these costs. Of a
// plan that reserves it also measures what the holds must last for.
func warmUp(ctx context.Context, c *Control, d *driver, m api.Mode) error {
	setting := settingOf(d.plan, m, warmStock)
	if setting.Units {
		setting.Stock = warmUnits
	}
	if err := c.SetStock(ctx, warmProduct, setting); err != nil {
		return err
	}
	d.warm(ctx, warmProduct)
	return c.SetStock(ctx, warmProduct, setting)
}

// setSecond sets the stock of the second product, if the plan has one.
func setSecond(ctx context.Context, c *Control, m api.Mode, p plan.Plan) error {
	if p.Reserving.Carts == 0 {
		return nil
	}
	setting := settingOf(p, m, p.Stock)
	if m.PerBuyer && setting.PerBuyer == 0 {
		setting.PerBuyer = 2 * p.Quantity
	}
	return c.SetStock(ctx, p.Second(), setting)
}
