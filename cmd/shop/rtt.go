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

// maxRTT is the longest --rtt: a new connection to MySQL takes several round trips, and a replica must connect before its start times out.
const maxRTT = time.Second

// farther adds latency between the replicas of a private stack and its servers: one delaying proxy for each pair of replica and server.
// The zero value adds none.
type farther struct {
	rtt  time.Duration // round trip to add; 0 = none
	lang string        // of what say says

	mu      sync.Mutex
	proxies []*wire.Proxy
	delayed map[string]bool // names of the servers that are reached through a proxy
}

// addRTT declares --rtt.
func addRTT(set *pflag.FlagSet, lang string, rtt *time.Duration) {
	set.DurationVar(rtt, "rtt", 0, both("round trip to add between the replicas and Redis, SQL and the other servers, as 1ms (default: none)",
		"在副本与 Redis、SQL 等服务器之间加多长的往返时间，如 1ms（默认不加）").In(lang))
}

// newFarther checks --rtt. given is a flag on the command line that excludes --rtt, such as "--redis"; "" = none.
func newFarther(set *pflag.FlagSet, rtt time.Duration, lang, given string) (*farther, error) {
	switch {
	case !set.Changed("rtt"):
		return &farther{}, nil
	case given != "":
		return nil, usage(both("--rtt delays servers that lastitem starts itself; leave out %s, whose network has a round trip of its own",
			"--rtt 只能延迟 lastitem 自己起的服务器；请去掉 %s，它的网络自有往返时间"), given)
	case rtt <= 0 || rtt > maxRTT:
		return nil, usage(both("--rtt %v: want more than 0, and at most %v", "--rtt %v：应大于 0，最多 %v"), rtt, maxRTT)
	}
	return &farther{rtt: rtt, lang: lang, delayed: map[string]bool{}}, nil
}

// options makes the replicas of a stack connect through the proxies.
func (f *farther) options(o localstack.Options) localstack.Options {
	if f.rtt > 0 {
		o.Via = f.via
	}
	return o
}

// via is localstack.Options.Via. Kafka gets no proxy: its client connects to the address that the broker advertises, which bypasses a proxy.
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

// fartherWords are the words of say, by language.
var fartherWords = map[string]struct{ far, near, file, broker string }{
	"en": {"rtt: %v from each replica to %s", "; none to %s", "SQLite is a file", "its broker advertises its own address"},
	"zh": {"rtt：各副本到 %[2]s 的往返时间为 %[1]v", "；不含 %s", "SQLite 是本地文件", "broker 通告的是自己的地址"},
}

// say logs the round trip, the servers that it applies to, and those that it does not, with the reason.
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
	words := fartherWords[f.lang]
	sort("sql", words.file, s.SQL)
	for _, x := range s.Extras() {
		sort(x.Name, words.broker, x.Services...)
	}
	line := fmt.Sprintf(words.far, f.rtt, strings.Join(names, ", "))
	if len(near) > 0 {
		line += fmt.Sprintf(words.near, strings.Join(near, ", "))
	}
	log("%s", line)
}

// close closes the proxies. It may be called again.
func (f *farther) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.proxies {
		p.Close()
	}
	f.proxies = nil
}

// givenFlag returns the first of these flags on the command line, such as "--redis"; "" = none.
func givenFlag(set *pflag.FlagSet, names ...string) string {
	for _, name := range names {
		if set.Changed(name) {
			return "--" + name
		}
	}
	return ""
}
