package shop

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"lastitem/internal/lock"
)

// brokenLease cannot be given up, as when its server has died.
type brokenLease struct{ lock.Lease }

func (brokenLease) Release(context.Context) error { return errors.New("connection refused") }

// All leases in flight fail when a server dies: that is one line a second, not one each.
func TestFailedReleasesAreThrottled(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s, err := New(Backends{}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 80 {
		s.locks("mutex").Release(t.Context(), brokenLease{})
	}
	if n := strings.Count(log.String(), "connection refused"); n < 1 || n > 2 {
		t.Errorf("80 failed releases are %d lines, want one a second", n)
	}
}
