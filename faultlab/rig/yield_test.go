package rig

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"lastitem/internal/audit"
	"lastitem/internal/localstack"
)

// serving returns a scene whose actor B serves a request by calling do.
func serving(t *testing.T, do func(b *Actor)) *Scene {
	t.Helper()
	l := serversOnly(t, Equipment{})
	l.client = http.DefaultClient
	l.Service = Service{
		Request: func(replica string, _ Ask) (*http.Request, error) {
			return http.NewRequest(http.MethodPost, replica, nil)
		},
		Answer: func(*http.Response, []byte) audit.Op { return audit.Op{Outcome: audit.OK} },
	}
	replica := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { do(l.B) }))
	t.Cleanup(replica.Close)
	l.B.URL = replica.URL
	return &Scene{Lane: l, began: time.Now()}
}

// beforeSet is where B is held, before its only command.
var beforeSet = Position{Server: localstack.Redis, Pattern: "SET k", Nth: 1, Cut: Command}

func (s *Scene) happened(what What) bool {
	return slices.ContainsFunc(s.Events(), func(e Event) bool { return e.What == what })
}

// A request that reaches its position is held there.
func TestHoldOrYieldHolds(t *testing.T) {
	t.Parallel()
	var conn *client
	s := serving(t, func(*Actor) { conn.do("SET", "k", "v") })
	conn = dial(t, s.Lane.B, localstack.Redis)
	p, hold, err := s.HoldOrYield(t.Context(), s.Lane.B, beforeSet, "key", generous)
	if err != nil || p.answered() || !s.happened(Held) {
		t.Fatalf("HoldOrYield = %v, answered %t, events %v; want it held", err, p.answered(), s.Events())
	}
	if got := tell(t, s.Lane, localstack.Redis, "EXISTS", "k"); got != "0" {
		t.Errorf("EXISTS while the SET is held = %s, want 0", got)
	}
	hold.Pass()
	if err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// A request that is answered before its position is not held, and neither is a later request.
func TestHoldOrYieldAnswered(t *testing.T) {
	t.Parallel()
	s := serving(t, func(*Actor) {})
	p, hold, err := s.HoldOrYield(t.Context(), s.Lane.B, beforeSet, "key", generous)
	if err != nil || !p.answered() || s.happened(Held) {
		t.Errorf("HoldOrYield = %v, answered %t, held %t; want it answered and not held", err, p.answered(), s.happened(Held))
	}
	if got := dial(t, s.Lane.B, localstack.Redis).do("SET", "k", "v"); got != "OK" {
		t.Errorf("a later SET = %q, want OK", got)
	}
	hold.Pass()
}

// A command that is in flight when its request is answered is held all the same, as a release of Redlock is that the others have overtaken.
func TestHeldAfterTheAnswer(t *testing.T) {
	t.Parallel()
	var conn *client
	s := serving(t, func(b *Actor) {
		conn.send("WAIT", "1", "200") // for 200 ms, since there is no replica
		for len(b.Unanswered()) == 0 {
			time.Sleep(time.Millisecond)
		}
	})
	conn = dial(t, s.Lane.B, localstack.Redis)
	at := Position{Server: localstack.Redis, Pattern: "WAIT", Nth: 1, Cut: Answer}
	_, first, err := s.Hold(t.Context(), s.Lane.B, at, "first", generous)
	if err != nil {
		t.Fatal(err)
	}
	first.Pass()
	_, second, err := s.HoldOrYield(t.Context(), s.Lane.B, at, "second", generous)
	held := slices.DeleteFunc(s.Events(), func(e Event) bool { return e.What != Held })
	if err != nil || len(held) != 2 {
		t.Fatalf("HoldOrYield = %v, events %v; want it held", err, s.Events())
	}
	second.Pass()
}

// A request that waits yields, although its process goes on sending commands: keep-alives of a session, for example.
func TestHoldOrYieldBesideKeepAlives(t *testing.T) {
	t.Parallel()
	s, turn := besideKeepAlives(t, "GET", "session")
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	if _, _, err := s.HoldOrYield(ctx, s.Lane.B, beforeSet, "key", 0); err != nil || !s.happened(Blocked) {
		t.Errorf("HoldOrYield = %v, events %v; want it blocked", err, s.Events())
	}
	close(turn)
}

// besideKeepAlives returns a scene whose actor B waits inside its process, until turn is closed, and sends a command 50 times a second.
func besideKeepAlives(t *testing.T, command ...string) (s *Scene, turn chan struct{}) {
	t.Helper()
	turn, beating := make(chan struct{}), make(chan struct{})
	s = serving(t, func(*Actor) { <-turn })
	conn := dial(t, s.Lane.B, localstack.Redis)
	go func() {
		defer close(beating)
		for {
			select {
			case <-turn:
				return
			case <-time.After(20 * time.Millisecond):
				conn.do(command...)
			}
		}
	}()
	t.Cleanup(func() { <-beating })
	return s, turn
}

// A request that waits inside its process yields, and is held when it gets to its position after all.
func TestHoldOrYieldYields(t *testing.T) {
	t.Parallel()
	var conn *client
	turn := make(chan struct{})
	s := serving(t, func(*Actor) {
		<-turn
		conn.do("SET", "k", "v")
	})
	conn = dial(t, s.Lane.B, localstack.Redis)
	p, hold, err := s.HoldOrYield(t.Context(), s.Lane.B, beforeSet, "key", 0)
	if err != nil || p.answered() || !s.happened(Blocked) || s.happened(Held) {
		t.Fatalf("HoldOrYield = %v, answered %t, events %v; want it blocked", err, p.answered(), s.Events())
	}
	close(turn)
	s.Yield(t.Context(), s.Lane.B, beforeSet, p, hold, generous)
	if !s.happened(Held) {
		t.Errorf("events %v, want it held", s.Events())
	}
	hold.Pass()
	if err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
