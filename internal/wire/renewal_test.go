package wire

import (
	"encoding/binary"
	"testing"
)

// A command that only keeps a session alive counts as a poll: it may come in the middle of any request.
func TestRenewalsArePolls(t *testing.T) {
	t.Parallel()
	zk := func(op uint32, path string) string {
		body := binary.BigEndian.AppendUint32(nil, 7) // the request's number
		body = binary.BigEndian.AppendUint32(body, op)
		body = binary.BigEndian.AppendUint32(body, uint32(len(path)))
		body = append(body, path...)
		return string(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	}
	for _, c := range []struct {
		codec   Codec
		message string
		poll    bool
	}{
		{ZooKeeper, zk(9, "/"), true},
		{ZooKeeper, zk(9, "/locks"), false},
		{ZooKeeper, zk(3, "/"), false},
		{HTTP, "PUT /v1/session/renew/8a HTTP/1.1\r\nHost: a\r\n\r\n", true},
		{HTTP, "PUT /v1/session/destroy/8a HTTP/1.1\r\nHost: a\r\n\r\n", false},
		{HTTP, "GET /v1/session/renew/8a HTTP/1.1\r\nHost: a\r\n\r\n", false},
	} {
		s := c.codec.begin()()
		if z, ok := s.(*zooKeeperSession); ok {
			z.begun = true
		}
		m, err := s.command([]byte(c.message))
		if err != nil || m.call == nil || m.call.Poll != c.poll {
			t.Errorf("%q: %+v, %v; want poll %t", c.message, m.call, err, c.poll)
		}
	}
}
