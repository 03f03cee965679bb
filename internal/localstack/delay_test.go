package localstack

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// With RTT each replica reaches Redis through a proxy of its own, which adds the round trip; the log says what is as near as before, and
// the proxies end with the stack.
func TestRTT(t *testing.T) {
	t.Parallel()
	const rtt = 20 * time.Millisecond
	s := startStack(t, Options{Replicas: 2, Backend: Embedded, Only: []string{Kafka}, RTT: rtt})
	addresses := map[string]bool{s.Redis.Addr: true}
	for _, r := range s.Replicas {
		env := envOf(t, r.Addr)
		if env["SHOP_KAFKA"] != s.Kafka.URL || env["SHOP_SQL"] != s.SQL.URL {
			t.Errorf("%s: Kafka at %q and SQL at %q, want the servers themselves", r.Name, env["SHOP_KAFKA"], env["SHOP_SQL"])
		}
		near := strings.TrimSuffix(strings.TrimPrefix(env["SHOP_REDIS"], "redis://"), "/0")
		addresses[near] = true
		began := time.Now()
		if err := ping(near); err != nil || time.Since(began) < rtt {
			t.Errorf("%s: PING took %v (%v), want %v or more", r.Name, time.Since(began), err, rtt)
		}
	}
	if len(addresses) != 3 {
		t.Errorf("Redis is at %v, want its own address and one for each replica", addresses)
	}
	var said string
	s.opts.Log, s.opts.Lang = func(format string, args ...any) { said = fmt.Sprintf(format, args...) }, "zh"
	s.logDelays()
	if want := "rtt：各副本到 redis 的往返时间为 20ms；不含 sql（SQLite 是本地文件）、kafka（broker 通告的是自己的地址）"; said != want {
		t.Errorf("the log says %q, want %q", said, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for address := range addresses {
		if c, err := net.DialTimeout("tcp", address, 5*time.Second); err == nil {
			_ = c.Close()
			t.Errorf("%s still listens", address)
		}
	}
}

// ping sends one command to a Redis, and waits for the answer.
func ping(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Minute)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return err
	}
	answer := make([]byte, 7)
	if _, err := io.ReadFull(c, answer); err != nil {
		return err
	}
	if string(answer) != "+PONG\r\n" {
		return fmt.Errorf("PING was answered %q", answer)
	}
	return nil
}
