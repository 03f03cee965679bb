package loadtest

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/internal/api"
	"lastitem/loadtest/client"
)

// Limits that protect the machine from typing errors.
const (
	maxWorkers = 20_000
	maxRate    = 1_000_000
)

// Validate returns all mistakes in the plan, each with its flag, joined; nil if there are none. It may be called before or after
// [Plan.WithDefaults].
func (p Plan) Validate() error {
	return errors.Join(slices.Concat(p.lengthFaults(), p.modelFaults(), p.orderFaults(), p.clientFaults())...)
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
		return []error{fault(api.Text{En: "%s exclude each other", Zh: "%s 不能同时使用"}, joinFlags(given))}
	}
	return nil
}

// modelFaults checks the settings of closed and open loops.
func (p Plan) modelFaults() []error {
	var errs []error
	check := func(ok bool, text api.Text, args ...any) {
		if !ok {
			errs = append(errs, fault(text, args...))
		}
	}
	check(p.VUs >= 0 && p.VUs <= maxWorkers, api.Text{En: "--vus must be 1 to %d, not %d", Zh: "--vus 应为 1 到 %d，不能是 %d"}, maxWorkers, p.VUs)
	check(p.Loops >= 0, api.Text{En: "--loops must not be negative", Zh: "--loops 不能为负"})
	check(p.Requests >= 0, api.Text{En: "--requests must not be negative", Zh: "--requests 不能为负"})
	check(p.Duration >= 0, api.Text{En: "--duration must not be negative", Zh: "--duration 不能为负"})
	check(p.Rate >= 0 && p.Rate <= maxRate && !math.IsNaN(p.Rate), api.Text{En: "--rate must be 0 to %d per second", Zh: "--rate 应为每秒 0 到 %d"}, maxRate)
	check(p.MaxInFlight >= 0 && p.MaxInFlight <= maxWorkers, api.Text{En: "--max-in-flight must be 1 to %d, not %d", Zh: "--max-in-flight 应为 1 到 %d，不能是 %d"}, maxWorkers, p.MaxInFlight)
	for i, s := range p.Stages {
		check(s.For >= 0 && s.Rate >= 0 && s.Rate <= maxRate && !math.IsNaN(s.Rate),
			api.Text{En: "--stages: stage %d must have a length and a rate of 0 to %d per second", Zh: "--stages：第 %d 段要有时长，以及每秒 0 到 %d 的到达数"}, i+1, maxRate)
	}
	// A setting of the other kind of loop would be ignored silently.
	if p.Open() {
		check(p.VUs == 0, api.Text{En: "--vus belongs to a closed loop; an open loop takes --max-in-flight", Zh: "--vus 只用于闭环；开环用 --max-in-flight"})
		check(!p.Burst, api.Text{En: "--burst belongs to a closed loop", Zh: "--burst 只用于闭环"})
		check(len(p.Stages) == 0 || NewSchedule(Plan{Stages: p.Stages}).total > 0, api.Text{En: "--stages has no arrivals: give it a rate and a length", Zh: "--stages 没有到达：请给出到达数和时长"})
	} else {
		check(p.MaxInFlight == 0, api.Text{En: "--max-in-flight belongs to an open loop (--rate or --stages)", Zh: "--max-in-flight 只用于开环（--rate 或 --stages）"})
	}
	return errs
}

// orderFaults checks the settings of the orders.
func (p Plan) orderFaults() []error {
	var errs []error
	check := func(ok bool, text api.Text, args ...any) {
		if !ok {
			errs = append(errs, fault(text, args...))
		}
	}
	check(p.Product >= 0, api.Text{En: "--product must be positive", Zh: "--product 应为正数"})
	check(p.Products <= 1 || orDefault(p.Product, defaultProduct) <= math.MaxInt64-int64(p.Products)+1,
		api.Text{En: "--products %d from --product %d on: the last id must fit into 64 bits", Zh: "从 --product %[2]d 起的 --products %[1]d 个商品：最后一个 id 超出 64 位"}, p.Products, orDefault(p.Product, defaultProduct))
	check(p.Products >= 0, api.Text{En: "--products must be positive", Zh: "--products 应为正数"})
	check(p.Zipf == 0 || p.Zipf > 1, api.Text{En: "--zipf must be greater than 1, or 0 for no skew", Zh: "--zipf 应大于 1，或为 0 表示均匀"})
	check(p.Zipf == 0 || p.Products > 1, api.Text{En: "--zipf needs --products of 2 or more", Zh: "--zipf 要求 --products 至少为 2"})
	check(p.Stock >= 0, api.Text{En: "--stock must not be negative", Zh: "--stock 不能为负"})
	check(p.Segments >= 0, api.Text{En: "--segments must not be negative", Zh: "--segments 不能为负"})
	check(p.Quantity >= 0, api.Text{En: "--quantity must be positive", Zh: "--quantity 应为正数"})
	check(p.Store == "" || slices.Contains(api.Stores, p.Store), api.Text{En: "--store must be redis, sql or etcd, not %q", Zh: "--store 应为 redis、sql 或 etcd，不能是 %q"}, p.Store)
	return errs
}

// clientFaults checks the settings of the clients.
func (p Plan) clientFaults() []error {
	var errs []error
	check := func(ok bool, text api.Text, args ...any) {
		if !ok {
			errs = append(errs, fault(text, args...))
		}
	}
	check(p.Warmup >= 0, api.Text{En: "--warmup must not be negative", Zh: "--warmup 不能为负"})
	check(p.Wait >= 0, api.Text{En: "--wait must not be negative", Zh: "--wait 不能为负"})
	check(p.Timeout >= 0, api.Text{En: "--timeout must not be negative", Zh: "--timeout 不能为负"})
	check(p.Timeout <= 0 || p.Timeout > p.Wait, api.Text{En: "--timeout %v must exceed --wait %v, or every wait ends as unknown", Zh: "--timeout %v 必须大于 --wait %v，否则每次等锁都以未知告终"}, p.Timeout, p.Wait)
	check(p.Retry >= 0, api.Text{En: "--retry must not be negative", Zh: "--retry 不能为负"})
	check(!p.RetryUnsafe || p.Retry > 0, api.Text{En: "--retry-unsafe needs --retry", Zh: "--retry-unsafe 须与 --retry 同用"})
	check(p.Repeat >= 0, api.Text{En: "--repeat must not be negative", Zh: "--repeat 不能为负"})
	check(p.SellOut >= 0, api.Text{En: "--sell-out must not be negative", Zh: "--sell-out 不能为负"})
	check(p.SellOut == 0 || !p.Open() && p.Loops == 0 && p.Duration == 0, api.Text{En: "--sell-out goes with --requests", Zh: "--sell-out 须与 --requests 同用"})
	check(p.Insist >= 0, api.Text{En: "--insist must not be negative", Zh: "--insist 不能为负"})
	check(p.Engine == "" || slices.Contains(client.EngineNames, p.Engine), api.Text{En: "--engine must be %s, not %q", Zh: "--engine 可选的有 %s，不能是 %q"}, strings.Join(client.EngineNames, ", "), p.Engine)
	return errs
}

// ParseStages reads stages written as "10s:100,30s:2000": for ten seconds up to 100 arrivals per second, then for thirty
// seconds up to 2000.
func ParseStages(text string) ([]Stage, error) {
	var stages []Stage
	for part := range strings.SplitSeq(text, ",") {
		length, rate, ok := strings.Cut(strings.TrimSpace(part), ":")
		d, err1 := time.ParseDuration(length)
		r, err2 := strconv.ParseFloat(rate, 64)
		if !ok || err1 != nil || err2 != nil {
			return nil, fault(api.Text{En: "--stages wants length:rate pairs like 10s:100,30s:2000, not %q", Zh: "--stages 应为 时长:每秒到达数，如 10s:100,30s:2000，不能是 %q"}, part)
		}
		stages = append(stages, Stage{For: d, Rate: r})
	}
	return stages, nil
}

// joinFlags returns "--a, --b and --c".
func joinFlags(flags []string) api.Text {
	last := len(flags) - 1
	return api.Text{En: strings.Join(flags[:last], ", ") + " and " + flags[last], Zh: strings.Join(flags[:last], "、") + " 和 " + flags[last]}
}
