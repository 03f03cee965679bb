package port_test

import (
	"net"
	"testing"

	"lastitem/internal/testenv/port"
)

// An address can be listened on, and differs from those that are taken.
func TestFree(t *testing.T) {
	t.Parallel()
	for range 50 {
		l, err := net.Listen("tcp", port.Free(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
}
