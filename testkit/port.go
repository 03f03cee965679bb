// FreePort gives a test an address on which nobody listens: for a server that the test starts, or in place of one that
// is down.

package testkit

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// FreePort returns a loopback address, host:port, that is free, and so is the port 10,000 higher, which a Redis Cluster
// takes for its bus. Both ports are below the range from which the system takes those of outgoing connections: a server
// that restarts finds them free again. No other call, in this process or another one, returns the address before the
// test ends: Free holds the UDP port of that number until then.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		n := 10_000 + rand.IntN(10_000)
		addr := address(n)
		taken, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		if listenable(addr) && listenable(address(n+10_000)) {
			t.Cleanup(func() { _ = taken.Close() })
			return addr
		}
		_ = taken.Close()
	}
	t.Fatal("no free port between 10000 and 20000")
	return ""
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func listenable(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}
