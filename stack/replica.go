package stack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/say/text"
	"lastitem/stack/keeper"
)

// startReplica fills in s.Replicas[i]. Replicas are processes of their own, so that what is local to a process, such as
// a mutex, really is.
func (s *Stack) startReplica(ctx context.Context, i int) error {
	number := strconv.Itoa(i + 1)
	missing, err := s.missingEnv()
	if err != nil {
		return err
	}
	backends, err := s.backendsEnv(i + 1)
	if err != nil {
		return err
	}
	s.Replicas[i], err = s.procs.launch(ctx, server{
		name:  "replica " + number,
		kind:  "shop serve",
		url:   overHTTP,
		setup: func(site) ([]string, error) { return []string{s.opts.Replica, "serve"}, nil },
		env: func(addr string) []string {
			// Options.Env last: of a variable given twice the last one counts.
			return slices.Concat([]string{
				"SHOP_LISTEN=" + addr,
				"SHOP_REPLICA=" + number,
				"SHOP_ADMIN_TOKEN=" + s.Token,
				"SHOP_FAIL_FAST=true",
				missing,
			}, backends, s.opts.Env)
		},
		ready: s.replicaReady(number),
		grace: grace,
	})
	if err == nil {
		s.opts.Log("replica %s: at %s", number, s.Replicas[i].Addr)
	}
	return err
}

// backendsEnv returns the environment variables with the addresses of a replica's servers. Extras that were not started
// get an empty variable, since the inherited environment may name others.
func (s *Stack) backendsEnv(replica int) ([]string, error) {
	servers := map[string][]Service{}
	for _, x := range s.servers() {
		servers[x.Name] = x.Services
	}
	var env []string
	for _, name := range slices.Concat([]string{Redis, "sql"}, extras) {
		urls := make([]string, len(servers[name]))
		for i, x := range servers[name] {
			var err error
			if urls[i], err = s.urlFor(x, replica); err != nil {
				return nil, err
			}
		}
		env = append(env, "SHOP_"+strings.ToUpper(name)+"="+strings.Join(urls, ","))
	}
	if os.Getenv("SHOP_READY_NEEDS") == "" { // a replica without a server that this stack started is not ready
		needs := []string{"redis", "sql"}
		needs = slices.DeleteFunc(needs, func(name string) bool { return servers[name][0].URL == "" })
		env = append(env, "SHOP_READY_NEEDS="+strings.Join(needs, ","))
	}
	return env, nil
}

// urlFor returns the URL that a replica uses for a server.
func (s *Stack) urlFor(x Service, replica int) (string, error) {
	if s.opts.Via == nil || x.Addr == "" {
		return x.URL, nil
	}
	addr, err := s.opts.Via(x, replica)
	if err != nil {
		return "", fmt.Errorf("stack: proxy from replica %d to %s: %w", replica, x.Name, err)
	}
	return strings.Replace(x.URL, x.Addr, addr, 1), nil
}

// kafkaWithin is how long the start of a replica waits for its consumers: a new broker may take half a minute to make a
// group.
const kafkaWithin = 45 * time.Second

// replicaReady makes the function that says whether a replica can serve. A ready one may still be joining its group of
// consumers: if the stack has a Kafka, the function waits for that too, for at most kafkaWithin, so that all modes are
// then served. A replica that is restarted gets that time again.
func (s *Stack) replicaReady(number string) func(ctx context.Context, addr string) error {
	var since time.Time
	return func(ctx context.Context, addr string) error {
		err := answers200(ctx, addr, "/readyz")
		if err != nil || s.Kafka.URL == "" {
			return err
		}
		why := kafkaMissing(ctx, addr)
		switch {
		case why == "":
		case since.IsZero():
			since = time.Now()
			return errors.New(why)
		case time.Since(since) <= kafkaWithin:
			return errors.New(why)
		default:
			s.opts.Log("replica %s: goes on without the mode kafka, because: %s", number, why)
		}
		since = time.Time{} // for its next start
		return nil
	}
}

// kafkaMissing says why a replica does not offer the mode kafka yet; "" = it does, or it is not a shop that has the
// mode.
func kafkaMissing(ctx context.Context, addr string) string {
	body, err := get(ctx, addr, "/modes/kafka")
	if err != nil {
		return ""
	}
	var mode struct {
		Available bool   `json:"available"`
		Why       string `json:"why"`
	}
	if json.Unmarshal(body, &mode) != nil || mode.Available {
		return ""
	}
	return cmp.Or(mode.Why, "it gives no reason")
}

// startBalancer fills in s.Balancer and s.URL. It comes last, so that it never meets a replica that is not there yet.
func (s *Stack) startBalancer(ctx context.Context) error {
	targets := make([]string, len(s.Replicas))
	for i, r := range s.Replicas {
		targets[i] = r.Addr
	}
	path, why, err := s.opts.choose(Nginx)
	if err != nil {
		return err
	}
	if path != "" {
		s.Balancer, why, err = s.launchReal(ctx, nginxServer(path, targets, &s.opts), path)
		s.URL = s.Balancer.URL
		if err != nil || why == "" {
			return err
		}
	}
	s.Balancer, err = s.procs.launch(ctx, proxyServer(&s.opts, targets))
	if err != nil {
		return fmt.Errorf("%w (and no nginx: %s)", err, why)
	}
	s.URL = s.Balancer.URL
	s.opts.Log("%s: %s at %s, because: %s", text.Of("balancer"), s.Balancer.Kind, s.Balancer.Addr, why)
	return nil
}

// MarkLogs notes how long the replicas' logs are, and returns what gives the last lines that each has written since, at
// most n of each, with the replica's name before the line: "replica 2: ...". After Close there are none.
func (s *Stack) MarkLogs() (since func(n int) []string) {
	marks := make([]int64, len(s.Replicas))
	log := func(i int) keeper.Log { return keeper.LogOf(s.Dir, s.Replicas[i].Name) }
	for i := range s.Replicas {
		if info, err := os.Stat(string(log(i))); err == nil {
			marks[i] = info.Size()
		}
	}
	return func(n int) []string {
		var all []string
		for i, r := range s.Replicas {
			for _, line := range log(i).Last(marks[i], n) {
				all = append(all, fmt.Sprintf("%s: %s", r.Name, line))
			}
		}
		return all
	}
}
