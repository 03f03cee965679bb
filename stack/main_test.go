package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"lastitem/stack/keeper"
	"lastitem/testkit"
)

// TestMain lets a copy of the test binary play every part of the shop that a stack consists of.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if part, ok := parts[os.Args[1]]; ok {
			if err := part(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

var parts = map[string]func(args []string) error{
	"keeper":         func([]string) error { return keeper.Run(os.Stdin, os.Stdout) },
	"embedded-redis": playRedis,
	"embedded-kafka": playKafka,
	"balance":        playBalancer,
	"serve":          playReplica,
	"parent":         playParent,
}

func terminated() context.Context {
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	return ctx
}

func playRedis(args []string) error {
	m, err := StartMiniredis(args[1])
	if err != nil {
		return err
	}
	<-terminated().Done()
	m.Close()
	return nil
}

func playKafka(args []string) error {
	c, err := StartKfake(args[1])
	if err != nil {
		return err
	}
	<-terminated().Done()
	c.Close()
	return nil
}

func playBalancer(args []string) error {
	var targets []string
	for i := 3; i < len(args); i += 2 {
		targets = append(targets, args[i])
	}
	return http.ListenAndServe(args[1], NewBalancer(targets))
}

// playReplica answers /readyz, tells its environment, and can be made to break in the ways that a balancer sees.
func playReplica([]string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/env", func(w http.ResponseWriter, _ *http.Request) {
		env := map[string]string{}
		for _, kv := range os.Environ() {
			if k, v, _ := strings.Cut(kv, "="); strings.HasPrefix(k, "SHOP_") {
				env[k] = v
			}
		}
		_ = json.NewEncoder(w).Encode(env)
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	srv := &http.Server{Addr: os.Getenv("SHOP_LISTEN"), Handler: mux}
	return srv.ListenAndServe()
}

// playParent starts a stack, prints it and waits to be killed.
func playParent(args []string) error {
	s, err := Start(context.Background(), Options{Replicas: 2, Backend: args[0], Extras: []string{}})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(partsOf(s)); err != nil {
		return err
	}
	<-s.Done()
	return s.Err()
}

// traces is what a stack would leave behind.
type traces struct {
	Dir  string
	PIDs map[string]int
}

func partsOf(s *Stack) traces {
	tr := traces{Dir: s.Dir, PIDs: map[string]int{"keeper": s.procs.keeper.PID}}
	others := []Service{s.Balancer, s.Redis, s.SQL, s.Etcd, s.ZooKeeper, s.Consul, s.Kafka}
	for _, sv := range slices.Concat(others, s.Replicas, s.Redlock) {
		if sv.PID != 0 {
			tr.PIDs[sv.Name] = sv.PID
		}
	}
	return tr
}

// left lists what is still there.
func (tr traces) left() []string {
	var left []string
	for name, pid := range tr.PIDs {
		if !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			left = append(left, fmt.Sprintf("%s (process %d)", name, pid))
		}
	}
	left = append(left, ofSession(tr.PIDs["keeper"])...) // such as the workers of nginx
	if _, err := os.Stat(tr.Dir); err == nil {
		left = append(left, tr.Dir)
	}
	return left
}

// wantNothingLeft waits until nothing of a stack is there.
func wantNothingLeft(t *testing.T, tr traces) {
	t.Helper()
	if tr.Dir == "" || len(tr.PIDs) == 0 {
		t.Fatalf("a stack without directory or processes: %+v", tr)
	}
	testkit.NoError(t, "nothing is left", func() error {
		if left := tr.left(); left != nil {
			return fmt.Errorf("there is %s", strings.Join(left, ", "))
		}
		return nil
	})
}

// wantCleanEnd closes a stack, and wants nothing of it left as soon as Close returns.
func wantCleanEnd(t *testing.T, s *Stack, tr traces) {
	t.Helper()
	testkit.Check(t, s.Close())
	if left := tr.left(); left != nil {
		t.Errorf("left behind when Close returned: %v", left)
	}
}

// startStack starts one and closes it with the test.
func startStack(t *testing.T, o Options) *Stack {
	t.Helper()
	o.Log = t.Logf
	s, err := Start(t.Context(), o)
	testkit.Must(t, err)
	testkit.Closes(t, s)
	return s
}
