package backend_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"lastitem/internal/backend"
	"lastitem/internal/testenv"
	"lastitem/internal/testenv/wait"
)

// lines collects a log.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// A ZooKeeper that grants no session as long as the locks trust theirs is not used, and the log says why, once.
func TestZooKeeperWithShorterSessions(t *testing.T) {
	t.Parallel()
	var log lines
	s := probing(t, backend.Config{
		ZooKeeper: testenv.ZooKeeper(t).Addr, Session: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	wait.Until(t, "the refusal is logged", func() bool { return strings.Contains(log.String(), "grants sessions of") })
	time.Sleep(2 * time.Second) // the client tries again every second
	if n := strings.Count(log.String(), "grants sessions of"); n != 1 || !strings.Contains(log.String(), "SHOP_LOCK_TTL") {
		t.Errorf("logged %d times, want once, with the setting:\n%s", n, log.String())
	}
	if err := s.Check("zookeeper"); err == nil {
		t.Error("Check = nil, want that it cannot be used")
	}
}
