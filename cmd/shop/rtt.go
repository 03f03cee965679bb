package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"lastitem/internal/localstack"
	"lastitem/internal/wire"
)

// maxRTT is the longest round trip of --rtt: a connection to MySQL takes several, within the time that a replica has to become ready.
const maxRTT = time.Second

// farther is the network between the replicas of a private stack and its servers, made longer: a delayed proxy for each replica and
// server. Its zero value is loopback itself.
type farther struct {
	rtt time.Duration // there and back; 0 = loopback's own

	mu      sync.Mutex
	proxies []*wire.Proxy
	delayed map[string]bool // the servers that a proxy stands before
}

// addRTT declares --rtt.
func addRTT(set *pflag.FlagSet, rtt *time.Duration, more string) {
	set.DurationVar(rtt, "rtt", 0, "round trip between the replicas and Redis, SQL and the other servers, as 1ms (default loopback's own)"+more)
}

// newFarther checks --rtt. given says what it cannot be combined with, as a flag; "" = nothing was given of that sort.
func newFarther(set *pflag.FlagSet, rtt time.Duration, given string) (*farther, error) {
	switch {
	case !set.Changed("rtt"):
		return &farther{}, nil
	case given != "":
		return nil, usage("--rtt delays servers that lastitem starts itself; leave out %s, whose network has a round trip of its own", given)
	case rtt <= 0 || rtt > maxRTT:
		return nil, usage("--rtt %v: want more than 0, and at most %v", rtt, maxRTT)
	}
	return &farther{rtt: rtt, delayed: map[string]bool{}}, nil
}

// options has the replicas of a stack take the longer way.
func (f *farther) options(o localstack.Options) localstack.Options {
	if f.rtt > 0 {
		o.Via = f.via
	}
	return o
}

// via is localstack.Options.Via. A client of Kafka connects to the address that the broker names, past any proxy.
func (f *farther) via(x localstack.Service, _ int) (string, error) {
	if x.Name == localstack.Kafka {
		return x.Addr, nil
	}
	p, err := wire.NewDelayed(x.Name, x.Addr, wire.Raw, f.rtt/2)
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.proxies = append(f.proxies, p)
	f.delayed[x.Name] = true
	return p.Addr, nil
}

// say tells of the longer way, and of what is not behind it.
func (f *farther) say(s *localstack.Stack, log func(format string, args ...any)) {
	if f.rtt == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var names, near []string
	sort := func(name, why string, services ...localstack.Service) {
		if len(services) == 0 || services[0].URL == "" {
			return
		}
		if f.delayed[services[0].Name] {
			names = append(names, name)
		} else {
			near = append(near, name+" ("+why+")")
		}
	}
	sort("redis", "", s.Redis)
	sort("sql", "SQLite is a file", s.SQL)
	for _, x := range s.Extras() {
		sort(x.Name, "its broker names its own address", x.Services...)
	}
	line := fmt.Sprintf("rtt: %v from each replica to %s", f.rtt, strings.Join(names, ", "))
	if len(near) > 0 {
		line += "; none to " + strings.Join(near, ", ")
	}
	log("%s", line)
}

// close ends the proxies. It may be repeated.
func (f *farther) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.proxies {
		p.Close()
	}
	f.proxies = nil
}

// given names the first flag of ownServers that was given; "" = none.
func (o ownServers) given(set *pflag.FlagSet) string { return givenFlag(set, ownFlags...) }

// givenFlag returns the first of the flags that was given, "--redis"; "" = none.
func givenFlag(set *pflag.FlagSet, names ...string) string {
	for _, name := range names {
		if set.Changed(name) {
			return "--" + name
		}
	}
	return ""
}
