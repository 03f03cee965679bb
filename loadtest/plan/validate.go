package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/internal/api"
	"lastitem/loadtest/client"
)

// Limits that keep a slip of the finger from taking the machine down.
const (
	maxWorkers = 20_000
	maxRate    = 1_000_000
)

// Validate returns every fault of the plan, each named by its flag, joined; nil where there is none. It may be called
// before or after [Plan.WithDefaults].
func (p Plan) Validate() error {
	return errors.Join(slices.Concat(p.lengthFaults(), p.modelFaults(), p.orderFaults(), p.clientFaults())...)
}

// lengthFaults checks that one thing decides how long the plan lasts.
func (p Plan) lengthFaults() []error {
	var given []string
	// Not zero, rather than positive: a negative value was given too, and is refused by its own check.
	add := func(is bool, flag string) {
		if is {
			given = append(given, flag)
		}
	}
	add(p.Loops != 0, "--loops")
	add(p.Requests != 0, "--requests")
	// A duration bounds a rate; beside anything else it is a second answer to the same question.
	add(p.Duration != 0 && p.Rate == 0, "--duration")
	add(p.Rate != 0, "--rate")
	add(len(p.Stages) > 0, "--stages")
	if len(given) > 1 {
		return []error{fault("%s exclude each other", joinFlags(given))}
	}
	return nil
}

// modelFaults checks the settings of the closed and of the open model.
func (p Plan) modelFaults() []error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fault(format, args...))
		}
	}
	check(p.VUs >= 0 && p.VUs <= maxWorkers, "--vus must be 1 to %d, not %d", maxWorkers, p.VUs)
	check(p.Loops >= 0, "--loops must not be negative")
	check(p.Requests >= 0, "--requests must not be negative")
	check(p.Duration >= 0, "--duration must not be negative")
	check(p.Rate >= 0 && p.Rate <= maxRate && !math.IsNaN(p.Rate), "--rate must be 0 to %d per second", maxRate)
	check(p.MaxInFlight >= 0 && p.MaxInFlight <= maxWorkers, "--max-in-flight must be 1 to %d, not %d", maxWorkers, p.MaxInFlight)
	var arrivals float64
	for i, s := range p.Stages {
		check(s.For >= 0 && s.Rate >= 0 && s.Rate <= maxRate && !math.IsNaN(s.Rate),
			"--stages: stage %d must have a length and a rate of 0 to %d per second", i+1, maxRate)
		arrivals += s.Rate * s.For.Seconds()
	}
	// A setting of the other model would be ignored silently.
	if p.Open() {
		check(p.VUs == 0, "--vus belongs to the closed model: the open one takes --max-in-flight")
		check(!p.Burst, "--burst belongs to the closed model")
		check(len(p.Stages) == 0 || arrivals > 0, "--stages has no arrivals: give it a rate and a length")
	} else {
		check(p.MaxInFlight == 0, "--max-in-flight belongs to the open model (--rate or --stages)")
	}
	return errs
}

// orderFaults checks what is asked for.
func (p Plan) orderFaults() []error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fault(format, args...))
		}
	}
	check(p.Product >= 0, "--product must be positive")
	check(p.Products >= 0, "--products must be positive")
	check(p.Zipf == 0 || p.Zipf > 1, "--zipf must be greater than 1, or 0 for no skew")
	check(p.Zipf == 0 || p.Products > 1, "--zipf needs --products of 2 or more")
	check(p.Stock >= 0, "--stock must not be negative")
	check(p.Segments >= 0, "--segments must not be negative")
	check(p.Quantity >= 0, "--quantity must be positive")
	check(p.Store == "" || slices.Contains(api.Stores, p.Store), "--store must be redis, sql or etcd, not %q", p.Store)
	return errs
}

// clientFaults checks how it is asked for.
func (p Plan) clientFaults() []error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fault(format, args...))
		}
	}
	check(p.Warmup >= 0, "--warmup must not be negative")
	check(p.Wait >= 0, "--wait must not be negative")
	check(p.Timeout >= 0, "--timeout must not be negative")
	check(p.Timeout <= 0 || p.Timeout > p.Wait, "--timeout %v must exceed --wait %v, or every wait ends as unknown", p.Timeout, p.Wait)
	check(p.Retry >= 0, "--retry must not be negative")
	check(!p.RetryUnsafe || p.Retry > 0, "--retry-unsafe needs --retry")
	check(p.Repeat >= 0, "--repeat must not be negative")
	check(p.SellOut >= 0, "--sell-out must not be negative")
	check(p.SellOut == 0 || !p.Open() && p.Loops == 0 && p.Duration == 0, "--sell-out goes with --requests")
	check(p.Insist >= 0, "--insist must not be negative")
	check(p.Engine == "" || slices.Contains(client.EngineNames, p.Engine), "--engine must be %s, not %q", strings.Join(client.EngineNames, ", "), p.Engine)
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
			return nil, fault("--stages wants length:rate pairs like 10s:100,30s:2000, not %q", part)
		}
		stages = append(stages, Stage{For: d, Rate: r})
	}
	return stages, nil
}

// fault builds an error about a plan.
func fault(format string, args ...any) error {
	return fmt.Errorf("loadtest: "+format, args...)
}

// joinFlags writes "--a, --b and --c".
func joinFlags(flags []string) string {
	last := len(flags) - 1
	return strings.Join(flags[:last], ", ") + " and " + flags[last]
}
