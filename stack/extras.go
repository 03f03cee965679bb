package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"lastitem/say/redact"
)

// redlockNodes is the number of masters of a Redlock, that of Redis's own description of it.
const redlockNodes = 5

// startExtra fills in an extra: the user's own, or a private one. If nobody asked for an extra that is missing or, with
// Auto, does not start, it is left out; the log says why.
func (s *Stack) startExtra(ctx context.Context, backend string) error {
	if own := s.opts.own(backend); own != "" {
		s.takeOwn(backend, own)
		s.opts.Log("%s: %s, as given", backend, redact.Address(own))
		return nil
	}
	why, err := s.tryExtra(ctx, backend)
	if why != "" {
		s.opts.Log("%s: none, because: %s", backend, why)
		s.lack(backend, why)
	}
	return err
}

// lack notes why a backend is missing.
func (s *Stack) lack(backend, why string) { s.lacking.Store(backend, firstLine(why)) }

// Missing says why a backend that was not started is missing, and what the user can do, by its name.
func (s *Stack) Missing() map[string]string {
	why := map[string]string{}
	s.lacking.Range(func(backend, line any) bool {
		why[fmt.Sprint(backend)] = fmt.Sprint(line)
		return true
	})
	return why
}

// missingEnv tells it to a replica, which would advise to set its own variables.
func (s *Stack) missingEnv() (string, error) {
	said, err := json.Marshal(s.Missing())
	return "SHOP_MISSING=" + string(said), err
}

// tryExtra starts a private extra, or says why it is left out.
func (s *Stack) tryExtra(ctx context.Context, backend string) (why string, err error) {
	required := !s.opts.unasked
	path, err := s.opts.findExtra(backend)
	if err == nil {
		required = required || s.opts.Backend == Local
		err = s.launchExtra(ctx, backend, path)
	}
	if err == nil || required || ctx.Err() != nil {
		return "", err
	}
	return strings.TrimPrefix(s.opts.tell(err), "stack: "), nil
}

// takeOwn fills in an extra of the user's own.
func (s *Stack) takeOwn(backend, addresses string) {
	if backend != Redlock {
		*s.extra(backend) = given(backend, addresses)
		return
	}
	for i, url := range strings.Split(addresses, ",") {
		s.Redlock = append(s.Redlock, given(redlockName(i), strings.TrimSpace(url)))
	}
}

// extra is where an extra of one service is kept.
func (s *Stack) extra(backend string) *Service {
	return map[string]*Service{Etcd: &s.Etcd, ZooKeeper: &s.ZooKeeper, Consul: &s.Consul, Kafka: &s.Kafka}[backend]
}

// launchExtra starts an extra and says so.
func (s *Stack) launchExtra(ctx context.Context, backend, path string) (err error) {
	switch backend {
	case Redlock:
		return s.launchRedlock(ctx, path)
	case Kafka:
		return s.startKafka(ctx, path)
	}
	describe := map[string]func(path string, o *Options) server{
		Etcd: etcdServer, ZooKeeper: zooKeeperServer, Consul: consulAgent,
	}
	into := s.extra(backend)
	if *into, err = s.procs.launch(ctx, describe[backend](path, &s.opts)); err != nil {
		return err
	}
	s.opts.Log("%s: %s at %s (%s)", backend, into.Kind, into.Addr, path)
	return nil
}

// launchRedlock starts the masters side by side; either all of them run or none is kept.
func (s *Stack) launchRedlock(ctx context.Context, path string) error {
	kind := redisKind(path)
	nodes := make([]Service, redlockNodes)
	starts := make([]func(context.Context) error, redlockNodes)
	for i := range nodes {
		starts[i] = func(ctx context.Context) (err error) {
			nodes[i], err = s.procs.launch(ctx, redisServer(path, redlockName(i), kind, &s.opts))
			return err
		}
	}
	if err := together(ctx, starts); err != nil {
		return err
	}
	s.Redlock = nodes
	addrs := make([]string, redlockNodes)
	for i, n := range nodes {
		addrs[i] = n.Addr
	}
	s.opts.Log("%s: %d × %s at %s (%s)", Redlock, redlockNodes, kind, strings.Join(addrs, ", "), path)
	return nil
}

func redlockName(i int) string { return fmt.Sprintf("%s %d", Redlock, i+1) }

// Extras lists those that are there.
func (s *Stack) Extras() []Extra {
	var there []Extra
	for _, name := range extras {
		services := s.Redlock
		if name != Redlock {
			services = []Service{*s.extra(name)}
		}
		if len(services) > 0 && services[0].URL != "" {
			there = append(there, Extra{Name: name, Services: services})
		}
	}
	return there
}

// servers lists the stores, which may be missing, and the extras.
func (s *Stack) servers() []Extra {
	return append([]Extra{{Redis, []Service{s.Redis}}, {"sql", []Service{s.SQL}}}, s.Extras()...)
}

// Kinds returns the kinds and versions of the servers by their names; those that are not there are left out.
func (s *Stack) Kinds() map[string]string {
	all := map[string]string{"balancer": s.Balancer.Kind, Redis: s.Redis.Kind, "sql": s.SQL.Kind}
	for _, x := range s.Extras() {
		all[x.Name] = x.Services[0].Kind
	}
	maps.DeleteFunc(all, func(_, kind string) bool { return kind == "" })
	return all
}
