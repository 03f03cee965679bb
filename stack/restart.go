package stack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"time"

	"lastitem/stack/keeper"
)

// A restart that fails is tried again after firstBackoff, and then after twice as long each time, up to lastBackoff.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

// revive starts a part that has died again, on its address, until that succeeds or the stack is closed.
func (l *launcher) revive(x part, how string) {
	l.opts.Log("%s has died: %s; starting it again", x.sv.name, how)
	for wait := firstBackoff; ; wait = min(2*wait, lastBackoff) {
		p, err := l.attempt(context.Background(), x.sv, x.addr)
		if err == nil {
			l.keep(x.sv, x.addr, p)
			l.opts.Log("%s: started again, pid %d", x.sv.name, p.PID)
			return
		}
		if l.keeper.Ended() {
			return
		}
		l.opts.Log("%s does not start: %s; trying again in %v", x.sv.name, firstLine(l.opts.tell(err)), wait)
		select {
		case <-time.After(wait):
		case <-l.keeper.Gone():
			return
		}
	}
}

// PID is the process that plays a part now, by the name of its Service; 0 where there is none.
func (s *Stack) PID(name string) int {
	x, ok := s.procs.named(name)
	if !ok {
		return 0
	}
	return x.p.PID
}

// PIDs lists the processes of the "replicas", of the "balancer", and as "stores" of the servers that needs names, such
// as "redis". Servers that are no processes of the stack are left out.
func (s *Stack) PIDs(needs []string) map[string][]int {
	parts := map[string][]Service{"replicas": s.Replicas, "balancer": {s.Balancer}}
	for _, x := range s.servers() {
		if slices.Contains(needs, x.Name) || x.Name == "sql" && slices.Contains(needs, MySQL) {
			parts["stores"] = append(parts["stores"], x.Services...)
		}
	}
	pids := map[string][]int{"stores": nil}
	for part, services := range parts {
		for _, x := range services {
			if pid := s.PID(x.Name); pid != 0 {
				pids[part] = append(pids[part], pid)
			}
		}
	}
	return pids
}

// Roll replaces replica i (from 0) by a process of another binary on the same address: it tells the old one to end,
// which drains it, waits until it has, and returns when the new one is ready and answers through the balancer.
func (s *Stack) Roll(ctx context.Context, i int, binary string) error {
	name := fmt.Sprintf("replica %d", i+1)
	old, ok := s.procs.named(name)
	if !ok {
		return fmt.Errorf("stack: there is no %s", name)
	}
	s.procs.keeper.Expect(old.p)
	if err := syscall.Kill(old.p.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stack: end %s: %w", name, err)
	}
	select {
	case <-old.p.Exited():
	case <-ctx.Done():
		return fmt.Errorf("stack: %s does not end: %w", name, context.Cause(ctx))
	}
	if old.p.How() != keeper.ExitedWell {
		return fmt.Errorf("stack: %s ended badly: %s%s", name, old.p.How(), old.p.Log.Tail())
	}
	sv := old.sv
	sv.setup = func(site) ([]string, error) { return []string{binary, "serve"}, nil }
	p, err := s.procs.attempt(ctx, sv, old.addr)
	if err != nil {
		return err
	}
	s.procs.keep(sv, old.addr, p)
	return s.reachable(ctx, fmt.Sprint(i+1))
}

// reachable waits until the balancer sends requests to the replica with this X-Replica: for a while it skips one that
// refused a connection.
func (s *Stack) reachable(ctx context.Context, replica string) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/healthz", http.NoBody)
		if err != nil {
			return err
		}
		res, err := probes.Do(req)
		if err == nil {
			_ = res.Body.Close()
			if res.Header.Get("X-Replica") == replica {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stack: the balancer does not ask replica %s: %w", replica, context.Cause(ctx))
		case <-time.After(readyPolling):
		}
	}
}
