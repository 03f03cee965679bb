package replica

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"lastitem/testkit"
)

// Between turnAway and the closing no connection is made that the closing would reset, and none that was made before is
// refused or reset. TestDrainResetsNobody meets this moment only by chance; here the test decides how long it lasts.
func TestTurnAway(t *testing.T) {
	t.Parallel()
	l, err := Listen("127.0.0.1:0")
	testkit.Must(t, err)
	before, err := net.Dial("tcp", l.Addr().String()) // by the kernel alone: nobody accepts
	testkit.Must(t, err)
	defer func() { _ = before.Close() }()
	testkit.Must(t, turnAway(l.TCPListener))
	for range 3 {
		conn, err := net.DialTimeout("tcp", l.Addr().String(), 50*time.Millisecond)
		if err == nil {
			_ = conn.Close()
		}
		if slow := net.Error(nil); !errors.As(err, &slow) || !slow.Timeout() {
			t.Errorf("dial after turnAway: %v, want a time-out", err)
		}
	}
	_, err = before.Write([]byte("x"))
	testkit.Check(t, err)
	accepted, err := l.Accept()
	testkit.Must(t, err)
	defer func() { _ = accepted.Close() }()
	got := make([]byte, 1)
	if _, err := accepted.Read(got); err != nil || got[0] != 'x' {
		t.Errorf("what was sent before it was accepted: %q, %v", got, err)
	}
	testkit.Must(t, l.Close())
	if conn, err := net.Dial("tcp", l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial after Close: %v, %v, want a refused connection", conn, err)
	}
}
