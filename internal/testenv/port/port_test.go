package port_test

import (
	"net"
	"strconv"
	"testing"

	"lastitem/internal/testenv/port"
)

// An address and the one of the bus, 10,000 higher, can be listened on, differ from those that are taken, and are below the range of
// outgoing connections.
func TestFree(t *testing.T) {
	t.Parallel()
	for range 50 {
		addr := port.Free(t)
		host, number, _ := net.SplitHostPort(addr)
		n, err := strconv.Atoi(number)
		if err != nil || n < 10_000 || n >= 20_000 {
			t.Errorf("Free() = %s, want a port from 10000 to 19999", addr)
		}
		for _, a := range []string{addr, net.JoinHostPort(host, strconv.Itoa(n+10_000))} {
			l, err := net.Listen("tcp", a)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
		}
	}
}
