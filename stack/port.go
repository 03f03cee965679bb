package stack

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"

	"lastitem/say/text"
)

// ports are those of one stack.
type ports struct {
	handedOut sync.Map // addresses
}

// free picks a loopback port that nobody listens on and that was not handed out. It stays below the range from which
// Linux and macOS take the local ports of outgoing connections, so that a busy client does not get in the way.
func (p *ports) free() (string, error) {
	for range 200 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+rand.IntN(12000)))
		if _, taken := p.handedOut.LoadOrStore(addr, true); taken {
			continue
		}
		if listenable(addr) == nil {
			return addr, nil
		}
	}
	return "", text.Of("stack: no free loopback port between 20000 and 32000").Errorf()
}

// cannotListen is the error of an address that cannot be listened on.
var cannotListen = text.Of("stack: cannot listen on %s: %w")

// listenable says why an address cannot be listened on; nil when it can.
func listenable(addr string) error {
	l, err := net.Listen("tcp", addr)
	var why syscall.Errno
	switch {
	case errors.As(err, &why): // without "listen tcp ADDR: bind:"
		return cannotListen.Errorf(addr, why)
	case err != nil:
		return cannotListen.Errorf(addr, err)
	}
	return l.Close()
}
