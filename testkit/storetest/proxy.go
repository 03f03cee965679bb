package storetest

import (
	"regexp"
	"testing"

	"lastitem/stack/wire"
	"lastitem/testkit"
)

// Gate puts a proxy before the server at an address.
func Gate(t *testing.T, addr string, codec wire.Codec) *wire.Proxy {
	t.Helper()
	p, err := wire.NewProxy("server", addr, codec)
	testkit.Must(t, err)
	t.Cleanup(p.Close)
	return p
}

// Cut loses the answer to the next command whose text has a pattern: when the answer comes, both ends of the connection
// are closed.
func Cut(t *testing.T, p *wire.Proxy, pattern string) *wire.Hold {
	t.Helper()
	match := regexp.MustCompile(pattern).MatchString
	held := p.Add(wire.Rule{Answer: true, Match: func(c wire.Call) bool { return match(c.Text) }})
	go func() {
		select {
		case <-held.Reached():
			held.Drop(true)
		case <-t.Context().Done():
		}
	}()
	return held
}

// WasCut reports whether an answer was lost.
func WasCut(h *wire.Hold) bool {
	select {
	case <-h.Reached():
		return true
	default:
		return false
	}
}
