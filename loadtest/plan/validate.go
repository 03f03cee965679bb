package plan

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/say/text"
)

// Limits that protect the machine from typing errors.
const (
	maxWorkers = 20_000
	maxRate    = 1_000_000
)

// Validate returns all mistakes in the plan, each with its flag, joined; nil if there are none. It may be called before
// or after [Plan.WithDefaults].
func (p Plan) Validate() error {
	return errors.Join(slices.Concat(p.lengthFaults(), p.modelFaults(), p.orderFaults(), p.reservingFaults(),
		p.clientFaults())...)
}

// lengthFaults checks that one thing decides how long the plan lasts.
func (p Plan) lengthFaults() []error {
	var given []string
	// A negative value counts as given too; its own check refuses it.
	add := func(is bool, flag string) {
		if is {
			given = append(given, flag)
		}
	}
	add(p.Loops != 0, "--loops")
	add(p.Requests != 0, "--requests")
	// A duration may bound a rate; with any other setting the length would be given twice.
	add(p.Duration != 0 && p.Rate == 0, "--duration")
	add(p.Rate != 0, "--rate")
	add(len(p.Stages) > 0, "--stages")
	if len(given) > 1 {
		return []error{Fault(text.Of("%s exclude each other"), joinFlags(given))}
	}
	return nil
}

// modelFaults checks the settings of closed and open loops.
func (p Plan) modelFaults() []error {
	var errs []error
	check := func(ok bool, said text.Text, args ...any) {
		if !ok {
			errs = append(errs, Fault(said, args...))
		}
	}
	check(p.VUs >= 0 && p.VUs <= maxWorkers, text.Of("--vus must be 1 to %d, not %d"), maxWorkers, p.VUs)
	check(p.Loops >= 0, text.Of("--loops must not be negative"))
	check(p.Requests >= 0, text.Of("--requests must not be negative"))
	check(p.Duration >= 0, text.Of("--duration must not be negative"))
	check(p.Rate >= 0 && p.Rate <= maxRate && !math.IsNaN(p.Rate), text.Of("--rate must be 0 to %d per second"), maxRate)
	check(p.MaxInFlight >= 0 && p.MaxInFlight <= maxWorkers, text.Of("--max-in-flight must be 1 to %d, not %d"),
		maxWorkers, p.MaxInFlight)
	for i, s := range p.Stages {
		check(s.For >= 0 && s.Rate >= 0 && s.Rate <= maxRate && !math.IsNaN(s.Rate),
			text.Of("--stages: stage %d must have a length and a rate of 0 to %d per second"), i+1, maxRate)
	}
	// A setting of the other kind of loop would be ignored silently.
	if p.Open() {
		check(p.VUs == 0, text.Of("--vus belongs to a closed loop; an open loop takes --max-in-flight"))
		check(!p.Burst, text.Of("--burst belongs to a closed loop"))
		check(len(p.Stages) == 0 || NewSchedule(Plan{Stages: p.Stages}).total > 0,
			text.Of("--stages has no arrivals: give it a rate and a length"))
	} else {
		check(p.MaxInFlight == 0, text.Of("--max-in-flight belongs to an open loop (--rate or --stages)"))
	}
	return errs
}

// orderFaults checks the settings of the orders.
func (p Plan) orderFaults() []error {
	var errs []error
	check := func(ok bool, said text.Text, args ...any) {
		if !ok {
			errs = append(errs, Fault(said, args...))
		}
	}
	check(p.Product >= 0, text.Of("--product must be positive"))
	check(p.Products <= 1 || cmp.Or(p.Product, defaultProduct) <= math.MaxInt64-int64(p.Products)+1,
		text.Of("--products %d from --product %d on: the last id must fit into 64 bits"), p.Products,
		cmp.Or(p.Product, defaultProduct))
	check(p.Products >= 0, text.Of("--products must be positive"))
	check(p.Zipf == 0 || p.Zipf > 1, text.Of("--zipf must be greater than 1, or 0 for no skew"))
	check(p.Zipf == 0 || p.Products > 1, text.Of("--zipf needs --products of 2 or more"))
	check(p.Stock >= 0, text.Of("--stock must not be negative"))
	check(p.Segments >= 0, text.Of("--segments must not be negative"))
	check(p.Quantity >= 0, text.Of("--quantity must be positive"))
	check(p.Follow >= 0 && p.Follow <= maxWorkers, text.Of("--follow must be 0 to %d, not %d"), maxWorkers, p.Follow)
	check(p.Adjust >= 0 && p.Adjust <= 1, text.Of("--adjust must be 0 to 100%%, not %v%%"), 100*p.Adjust)
	check(p.Store == "" || slices.Contains(api.Stores, p.Store), text.Of("--store must be redis, sql or etcd, not %q"),
		p.Store)
	return errs
}

// reservingFaults checks what the buyers do.
func (p Plan) reservingFaults() []error {
	var errs []error
	check := func(ok bool, said text.Text, args ...any) {
		if !ok {
			errs = append(errs, Fault(said, args...))
		}
	}
	h := p.Reserving
	share := func(flag string, value float64) {
		check(value >= 0 && value <= 1, text.Of("%s must be 0 to 1, not %v"), flag, value)
	}
	share("--pays", h.Pays)
	share("--pays-late", h.PaysLate)
	share("--cancels", h.Cancels)
	share("--double-clicks", h.DoubleClicks)
	share("--extends", h.Extends)
	share("--returns", h.Returns)
	share("--carts", h.Carts)
	check(h.Pays+h.PaysLate+h.Cancels <= 1+1e-9, text.Of("--pays, --pays-late and --cancels add up to more than 1"))
	check(h.For == 0 || h.For >= minHold && h.For <= maxHold, text.Of("--hold must be %v to %v, not %v"), minHold, maxHold,
		h.For)
	check(h.PayFrom >= 0 && h.PayTo >= h.PayFrom, text.Of("--pay-from and --pay-to must not be negative, and in "+
		"this order"))
	check(h.Buyers >= 0, text.Of("--buyers must not be negative"))
	check(h.BuyerZipf == 0 || h.BuyerZipf > 1, text.Of("--buyer-zipf must be greater than 1, or 0 for no skew"))
	check(h.PerBuyer >= 0, text.Of("--per-buyer must not be negative"))
	check(slices.Contains([]string{"", "refund", "rehold"}, h.Late), text.Of("--late must be refund or rehold, not %q"),
		h.Late)
	check(!h.On() || p.Segments == 0, text.Of("--segments does not go with --plan reserve"))
	if len(errs) == 0 && !h.On() {
		h.DoubleClicks, h.Buyers, h.BuyerZipf, h.PerBuyer = 0, 0, 0, 0
		check(h == Reserving{}, text.Of("what buyers do after they have reserved needs --plan reserve"))
	}
	return errs
}

// minHold and maxHold are the limits of the service.
const (
	minHold = 100 * time.Millisecond
	maxHold = time.Hour
)

// clientFaults checks the settings of the clients.
func (p Plan) clientFaults() []error {
	var errs []error
	check := func(ok bool, said text.Text, args ...any) {
		if !ok {
			errs = append(errs, Fault(said, args...))
		}
	}
	check(p.Warmup >= 0, text.Of("--warmup must not be negative"))
	check(p.Wait >= 0, text.Of("--wait must not be negative"))
	check(p.Timeout >= 0, text.Of("--timeout must not be negative"))
	check(p.Timeout <= 0 || p.Timeout > p.Wait, text.Of("--timeout %v must exceed --wait %v, or every wait ends as "+
		"unknown"), p.Timeout, p.Wait)
	check(p.Retry >= 0, text.Of("--retry must not be negative"))
	check(!p.RetryUnsafe || p.Retry > 0, text.Of("--retry-unsafe needs --retry"))
	check(p.Repeat >= 0, text.Of("--repeat must not be negative"))
	check(p.SellOut >= 0, text.Of("--sell-out must not be negative"))
	check(p.SellOut == 0 || !p.Open() && p.Loops == 0 && p.Duration == 0, text.Of("--sell-out goes with --requests"))
	check(p.Insist >= 0, text.Of("--insist must not be negative"))
	check(p.Engine == "" || slices.Contains(EngineNames, p.Engine), text.Of("--engine must be %s, not %q"),
		strings.Join(EngineNames, ", "), p.Engine)
	return errs
}

// ParseStages reads stages written as "10s:100,30s:2000": for ten seconds up to 100 arrivals per second, then for
// thirty seconds up to 2000.
func ParseStages(said string) ([]Stage, error) {
	var stages []Stage
	for part := range strings.SplitSeq(said, ",") {
		length, rate, ok := strings.Cut(strings.TrimSpace(part), ":")
		d, err1 := time.ParseDuration(length)
		r, err2 := strconv.ParseFloat(rate, 64)
		if !ok || err1 != nil || err2 != nil {
			return nil, Fault(text.Of("--stages wants length:rate pairs like 10s:100,30s:2000, not %q"), part)
		}
		stages = append(stages, Stage{For: d, Rate: r})
	}
	return stages, nil
}

// joinFlags returns "--a, --b and --c".
func joinFlags(flags []string) text.Text {
	last := len(flags) - 1
	return text.Of("%s and %s").With(text.List(flags[:last]), flags[last])
}
