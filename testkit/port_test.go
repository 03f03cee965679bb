package testkit_test

import (
	"net"
	"strconv"
	"testing"

	"lastitem/testkit"
)

// An address and the one of the bus, 10,000 higher, can be listened on, and are below the range of outgoing
// connections. Nobody gets the same one twice, though nobody listens yet: by chance alone two of 400 would be equal in
// all but 3 of 10,000 runs.
func TestFree(t *testing.T) {
	t.Parallel()
	given := map[string]bool{}
	for range 400 {
		addr := testkit.FreePort(t)
		if given[addr] {
			t.Errorf("Free() = %s twice", addr)
		}
		given[addr] = true
		host, number, _ := net.SplitHostPort(addr)
		n, err := strconv.Atoi(number)
		if err != nil || n < 10_000 || n >= 20_000 {
			t.Errorf("Free() = %s, want a port from 10000 to 19999", addr)
		}
		for _, a := range []string{addr, net.JoinHostPort(host, strconv.Itoa(n+10_000))} {
			l, err := net.Listen("tcp", a)
			testkit.Must(t, err)
			_ = l.Close()
		}
	}
}
