package backend

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/store"
	"lastitem/testkit"
)

// An answer that has arrived is read although its time is over, as it is after a pause of the process.
func TestReadsWhatIsThereAfterItsTime(t *testing.T) {
	t.Parallel()
	l := testkit.Listen(t)
	sent := make(chan error, 1)
	go func() {
		server, err := l.Accept()
		if err == nil {
			_, err = server.Write([]byte("+OK\r\n"))
		}
		sent <- err
	}()
	var slots reloader
	var asked atomic.Int32
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"},
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			asked.Add(1)
			return nil, nil
		}})
	defer cluster.Close()
	dial := withLastLook(&redis.UniversalOptions{DialTimeout: time.Minute}, &slots, nil)
	c, err := dial(context.Background(), "tcp", l.Addr().String())
	testkit.Must(t, err)
	defer c.Close()
	testkit.Must(t, <-sent)
	var n int
	p := make([]byte, 16)
	for end := time.Now().Add(20 * time.Second); n == 0 && time.Now().Before(end); { // until it has crossed the loopback
		testkit.Must(t, c.SetReadDeadline(time.Now().Add(-time.Second)))
		n, err = c.Read(p)
	}
	if err != nil || string(p[:n]) != "+OK\r\n" {
		t.Errorf("Read = %q, %v, want the answer", p[:n], err)
	}
	slots.c.Store(cluster) // the first reads may have been too early
	_ = c.SetReadDeadline(time.Now().Add(-time.Second))
	if n, err := c.Read(p); err == nil {
		t.Errorf("Read of nothing = %q, nil, want a time-out", p[:n])
	}
	testkit.Until(t, "a cluster is asked for its slots after a time-out", func() bool { return asked.Load() > 0 })
}

// The ensemble hands out its servers as the client's own provider does, which Java's client has too.
func TestEnsembleLikeTheClientsOwn(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ {
		var servers []string
		for range n {
			servers = append(servers, net.JoinHostPort("127.0.0.1", []string{"1", "2", "3", "4"}[len(servers)]))
		}
		own, ours := zk.NewDNSHostProvider(), &ensemble{}
		testkit.Must(t, own.Init(servers))
		if err := ours.Init(servers); err != nil || ours.Len() != n {
			t.Fatalf("Init() = %v, %d servers, want %d", err, ours.Len(), n)
		}
		seen := map[string]string{}
		for range 200 {
			if rand.N(4) == 0 {
				own.Connected()
				ours.Connected()
			}
			want, all := own.Next()
			got, gotAll := ours.Next()
			if seen[want] == "" {
				seen[want] = got
			}
			if seen[want] != got || gotAll != all {
				t.Fatalf("Next() = %s, %t, want %s, %t", got, gotAll, seen[want], all)
			}
		}
		if len(seen) != n {
			t.Errorf("%d of %d servers were handed out", len(seen), n)
		}
	}
}

// An etcd that was away is found again soon: its clients go on connecting at short intervals. With gRPC's own back-off
// so many attempts take half an hour.
func TestEtcdIsDialledAgainSoon(t *testing.T) {
	t.Parallel()
	l := testkit.Listen(t)
	dialled := make(chan struct{}, 1000)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			dialled <- struct{}{}
			_ = c.Close()
		}
	}()
	defer l.Close()
	s, err := Open(Config{Etcd: "http://" + l.Addr().String()})
	testkit.Must(t, err)
	defer s.Close()
	begun := time.Now()
	testkit.Until(t, "etcd is dialled 24 times", func() bool { return len(dialled) >= 24 })
	t.Logf("after %s", time.Since(begun))
}

// What a health logs is news: a line when the backend has not answered for a second, a line when it does.
func TestHealthLogsNews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var down atomic.Bool
		down.Store(true)
		ping := func(ctx context.Context) error {
			if down.Load() {
				return errors.New("refused")
			}
			return ctx.Err()
		}
		lines := func(when string, want int, last string) {
			t.Helper()
			synctest.Wait()
			got := strings.Split(strings.TrimSpace(log.String()), "\n")
			if n := strings.Count(log.String(), "\n"); n != want || !strings.Contains(got[len(got)-1], last) {
				t.Errorf("%s: %d lines, want %d, the last with %q:\n%s", when, n, want, last, &log)
			}
		}
		h := watch(news{log: slog.New(slog.NewTextHandler(&log, nil)), backend: "redis"}, Health{}, probe{ask: ping})
		time.Sleep(newsAfter / 2)
		lines("it may still be starting", 0, "")
		down.Store(false)
		time.Sleep(time.Hour)
		lines("all is well", 0, "")
		down.Store(true)
		time.Sleep(time.Hour)
		lines("down for an hour", 1, `level=WARN msg="backend does not answer" backend=redis err=refused`)
		down.Store(false)
		time.Sleep(time.Hour)
		lines("up for an hour", 2, `level=INFO msg="backend answers" backend=redis after=1h0m`)
		down.Store(true)
		time.Sleep(3 * time.Second)
		lines("down again", 3, "level=WARN")
		down.Store(false)
		time.Sleep(3 * time.Second)
		lines("up again", 4, "level=INFO")
		h.close()
		lines("closed", 4, "level=INFO")
	})
}

// A probe that is not answered is repeated at once, and the backend is down when that one is not answered either. An
// answer that refuses is enough by itself. While it is down it is asked more often, and one answer brings it back.
func TestHealthTakesTwoSilencesAndOneRefusal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails   int // probes in a row
		refused bool
		down    bool
	}{
		"one silence":   {1, false, false},
		"two silences":  {2, false, true},
		"one refusal":   {1, true, true},
		"three of them": {3, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var fails, probes atomic.Int64
				h := watch(news{log: slog.New(slog.DiscardHandler)}, Health{}, probe{
					ask: func(ctx context.Context) error {
						probes.Add(1)
						if fails.Add(-1) < 0 {
							return nil
						}
						if c.refused {
							return errors.New("OOM")
						}
						<-ctx.Done()
						return ctx.Err()
					},
					refused: func(err error) bool { return err.Error() == "OOM" },
				})
				defer h.close()
				synctest.Wait()
				begin, seen := time.Now(), probes.Load()
				fails.Store(int64(c.fails))
				var down, up time.Duration
				for up == 0 && time.Since(begin) < 10*time.Second {
					time.Sleep(10 * time.Millisecond)
					synctest.Wait()
					switch now := h.check(); {
					case now != nil && down == 0:
						down = time.Since(begin)
						testkit.Is(t, errors.Is(now, store.ErrRefused), c.refused, "check() = %v, ErrRefused", now)
					case now == nil && down > 0:
						up = time.Since(begin)
					}
				}
				if (down > 0) != c.down || down > 3*time.Second {
					t.Errorf("down after %s, want that to be %t, and within 3 s", down, c.down)
				}
				if c.down && up-down > time.Duration(c.fails)*(probeDown+900*time.Millisecond) {
					t.Errorf("up %s after it was down", up-down)
				}
				if n := probes.Load() - seen; n < int64(c.fails)+1 {
					t.Errorf("%d probes", n)
				}
			})
		})
	}
}

// A process whose first probe is not answered in time does not know yet whether the backend is down: requests go there,
// as they do before any probe has ended. The second silence decides.
func TestHealthFirstSilence(t *testing.T) {
	t.Parallel()
	for _, silences := range []int64{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			var probes atomic.Int64
			h := watch(news{log: slog.New(slog.DiscardHandler)}, Health{}, probe{ask: func(ctx context.Context) error {
				if probes.Add(1) <= silences {
					<-ctx.Done()
				}
				return ctx.Err()
			}})
			defer h.close()
			begin, down := time.Now(), false
			for h.check() != nil && time.Since(begin) < 10*time.Second {
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
				down = down || h.check() != nil && !errors.Is(h.check(), errNotAsked)
			}
			if want := silences > 1; down != want || h.check() != nil {
				t.Errorf("after %d silences it was down: %t, want %t; at the end: %v", silences, down, want, h.check())
			}
		})
	}
}

// Without probes everything counts as healthy.
func TestHealthOff(t *testing.T) {
	t.Parallel()
	s, err := Open(Config{Redis: "redis://127.0.0.1:1/0", SQL: "root:x@tcp(127.0.0.1:1)/shop", Conns: 1,
		Health: Health{Every: -1}})
	testkit.Must(t, err)
	for _, name := range []string{"redis", "sql"} {
		testkit.Is(t, errors.Join(s.Check(name), s.Down(name)), nil, "Check(%s), Down(%s)", name, name)
	}
	_, err = s.Ready([]string{"redis", "sql"}, nil)
	testkit.Check(t, errors.Join(err, s.Close()))
}
