package shop

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock"
	"lastitem/testkit"
)

// brokenLease cannot be given up, as when its server has died.
type brokenLease struct{ lock.Lease }

func (brokenLease) Release(context.Context) error { return errors.New("connection refused") }

// All leases in flight fail when a server dies: that is one line a second and mode, with the number of the others.
func TestFailedReleasesAreThrottled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, err := New(Backends{}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, nil)
		testkit.Must(t, err)
		for range 80 {
			s.locks("mutex").Release(t.Context(), brokenLease{})
		}
		s.locks("setnx").Release(t.Context(), brokenLease{})
		time.Sleep(2 * time.Second)
		s.locks("mutex").Release(t.Context(), brokenLease{})
		if n := strings.Count(log.String(), "connection refused"); n != 3 ||
			!strings.Contains(log.String(), "not_logged=79") {
			t.Errorf("%d lines, want 3, the last about 79 others:\n%s", n, &log)
		}
	})
}
