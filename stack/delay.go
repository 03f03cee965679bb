package stack

import (
	"fmt"
	"sync"
	"time"

	"lastitem/say/text"
	"lastitem/stack/wire"
)

// delays are the proxies that add Options.RTT: one for each pair of replica and server.
type delays struct {
	mu      sync.Mutex
	proxies []*wire.Proxy
	servers map[string]bool // names of the servers that are reached through a proxy
}

// via is Options.Via where there is an Options.RTT. Kafka gets no proxy: its client connects to the address that the
// broker advertises, which bypasses a proxy.
func (d *delays) via(rtt time.Duration) func(x Service, replica int) (string, error) {
	d.servers = map[string]bool{}
	return func(x Service, _ int) (string, error) {
		if x.Name == Kafka {
			return x.Addr, nil
		}
		p, err := wire.NewDelayed(x.Name, x.Addr, wire.Raw, rtt/2)
		if err != nil {
			return "", err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.proxies, d.servers[x.Name] = append(d.proxies, p), true
		return p.Addr, nil
	}
}

// delayTexts are the parts of the line about the round trip, by language.
var delayTexts = text.Table(struct{ far, near, why, file, broker string }{"rtt: %v from each replica to %s",
	"; none to %s", "%s (%s)", "SQLite is a file", "its broker advertises its own address"})

// log logs the round trip, the servers that it applies to, and those that it does not, with the reason.
func (d *delays) log(o *Options, all []Extra) {
	d.mu.Lock()
	defer d.mu.Unlock()
	texts := delayTexts.In(o.Lang)
	var far, near []string
	why := map[string]string{"sql": texts.file, Kafka: texts.broker}
	for _, x := range all {
		switch {
		case x.Services[0].URL == "":
		case d.servers[x.Services[0].Name]:
			far = append(far, x.Name)
		default:
			near = append(near, fmt.Sprintf(texts.why, x.Name, why[x.Name]))
		}
	}
	line := fmt.Sprintf(texts.far, o.RTT, text.List(far).In(o.Lang))
	if len(near) > 0 {
		line += fmt.Sprintf(texts.near, text.List(near).In(o.Lang))
	}
	o.Log("%s", line)
}

// close closes the proxies. It may be called again.
func (d *delays) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.proxies {
		p.Close()
	}
	d.proxies = nil
}
