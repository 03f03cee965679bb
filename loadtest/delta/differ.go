package delta

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/loadtest"
)

// environments lists the differences between the environments of two load tests, except their times and names.
func environments(a, b loadtest.Comparison) []Differing {
	var all []Differing
	add := func(what, x, y string) {
		if x != y {
			all = append(all, Differing{what, orUnknown(x), orUnknown(y)})
		}
	}
	x, y := a.Environment, b.Environment
	add("lastitem", x.Version, y.Version)
	add("CPU", x.CPU, y.CPU)
	add("CPUs", strconv.Itoa(x.CPUs), strconv.Itoa(y.CPUs))
	add("GOMAXPROCS", strconv.Itoa(x.GOMAXPROCS), strconv.Itoa(y.GOMAXPROCS))
	add("Go", x.Go, y.Go)
	add("OS", x.OS+"/"+x.Arch, y.OS+"/"+y.Arch)
	add("engine", x.Engine, y.Engine)
	add("replicas", strconv.Itoa(x.Replicas), strconv.Itoa(y.Replicas))
	add("rtt", fmt.Sprint(x.RTT), fmt.Sprint(y.RTT))
	names := maps.Clone(x.Servers)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, y.Servers)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		add(name, x.Servers[name], y.Servers[name])
	}
	return all
}

func orUnknown(s string) string {
	if s == "" {
		return "?"
	}
	return s
}

// notOfThePlan are the fields of a plan that do not change what a run does.
var notOfThePlan = []string{"name", "repeat", "insist", "must_end"}

// plansDiffer lists the fields in which two plans differ, by their names in JSON.
func plansDiffer(a, b loadtest.Plan) []Differing {
	x, y := fieldsOf(a), fieldsOf(b)
	names := maps.Clone(x)
	maps.Copy(names, y)
	var all []Differing
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if x[name] != y[name] && !slices.Contains(notOfThePlan, name) {
			all = append(all, Differing{name, orNone(x[name]), orNone(y[name])})
		}
	}
	return all
}

func orNone(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// durations are the fields of a plan that are times. JSON has them as nanoseconds.
var durations = []string{"duration", "warmup", "timeout", "wait", "sell_out"}

// fieldsOf writes each field of a plan as JSON, and times as in "1m0s".
func fieldsOf(p loadtest.Plan) map[string]string {
	text, err := json.Marshal(p)
	raw := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(text, &raw)
	}
	if err != nil { // every field of a plan can be encoded
		panic(err)
	}
	fields := map[string]string{}
	for name, value := range raw {
		fields[name] = string(value)
		if ns, err := strconv.ParseInt(fields[name], 10, 64); err == nil && slices.Contains(durations, name) {
			fields[name] = time.Duration(ns).String()
		}
	}
	if len(p.Stages) > 0 { // as --stages takes them
		stages := make([]string, len(p.Stages))
		for i, s := range p.Stages {
			stages[i] = fmt.Sprintf("%s:%v", s.For, s.Rate)
		}
		fields["stages"] = strings.Join(stages, ",")
	}
	return fields
}
