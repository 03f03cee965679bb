package netdelay

import (
	"io"
	"net"
	"testing"
	"time"
)

// A byte is delayed twice, there and back, and Close ends open connections.
func TestProxy(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	const by = 30 * time.Millisecond
	p, err := New(t.Context(), server.Addr().String(), by)
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	_ = client.SetDeadline(time.Now().Add(20 * time.Second))
	began, echo := time.Now(), make([]byte, 3)
	if _, err := client.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(client, echo); err != nil || string(echo) != "abc" {
		t.Fatalf("echo %q, %v, want abc", echo, err)
	}
	if took := time.Since(began); took < 2*by {
		t.Errorf("there and back in %v, want at least %v", took, 2*by)
	}
	p.Close()
	if _, err := client.Read(echo); err == nil {
		t.Error("a connection has outlived the proxy")
	}
}
