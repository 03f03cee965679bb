package backend

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// An answer that has arrived is read although its time is over, as it is after a pause of the process.
func TestReadsWhatIsThereAfterItsTime(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sent := make(chan error, 1)
	go func() {
		server, err := l.Accept()
		if err == nil {
			_, err = server.Write([]byte("+OK\r\n"))
		}
		sent <- err
	}()
	c, err := withLastLook(&redis.UniversalOptions{DialTimeout: time.Minute})(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	var n int
	p := make([]byte, 16)
	for end := time.Now().Add(20 * time.Second); n == 0 && time.Now().Before(end); { // until it has crossed the loopback
		if err := c.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err = c.Read(p)
	}
	if err != nil || string(p[:n]) != "+OK\r\n" {
		t.Errorf("Read = %q, %v, want the answer", p[:n], err)
	}
	_ = c.SetReadDeadline(time.Now().Add(-time.Second))
	if n, err := c.Read(p); err == nil {
		t.Errorf("Read of nothing = %q, nil, want a time-out", p[:n])
	}
}
