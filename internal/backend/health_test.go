package backend

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.String()
}

// What a health logs is news: a line when the backend has not answered for a second, a line when it does.
func TestHealthLogsNews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
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
		h := watch(news{log: slog.New(slog.NewTextHandler(&log, nil)), backend: "redis"}, ping, func() error { return nil })
		time.Sleep(newsAfter / 2)
		lines("it may still be starting", 0, "")
		time.Sleep(time.Hour)
		lines("down for an hour", 1, `level=WARN msg="backend does not answer" backend=redis err=refused`)
		down.Store(false)
		time.Sleep(time.Hour)
		lines("up for an hour", 2, `level=INFO msg="backend answers" backend=redis after=1h0m`)
		down.Store(true)
		time.Sleep(2 * pingEvery)
		lines("down again", 3, "level=WARN")
		down.Store(false)
		time.Sleep(2 * pingEvery)
		lines("up again", 4, "level=INFO")
		h.close()
		lines("closed", 4, "level=INFO")
	})
}

func TestHealthIsQuietWhileAllIsWell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		begin := time.Now()
		h := watch(news{log: slog.New(slog.NewTextHandler(&log, nil)), backend: "redis"}, func(context.Context) error {
			if time.Since(begin) < newsAfter/2 {
				return errors.New("starting")
			}
			return nil
		}, func() error { return nil })
		time.Sleep(time.Hour)
		h.close()
		if log.String() != "" {
			t.Errorf("logged: %s", &log)
		}
	})
}
