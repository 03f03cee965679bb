package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"lastitem/stack/wire"
)

// ZooKeeper reads ZooKeeper's protocol: which request, and on which node. Its server answers in order; the events of
// watches are pushes, and the pings of a session polls.
var ZooKeeper = wire.Codec{Plain: true, Begin: func() wire.Session { return &zooKeeperSession{} }}

type zooKeeperSession struct {
	begun, heard bool // the first message asks for the session, and the first answer grants it
	waiting      []zooKeeperCall
}

type zooKeeperCall struct {
	number int32
	call   *wire.Command
}

// The numbers of messages that are no requests.
const (
	zooKeeperEvent   = -1
	zooKeeperPing    = -2
	zooKeeperClose   = -11
	longestZooKeeper = 64 << 20
	// zooKeeperGrant is the number of bytes before the password in the answer to a connect request: protocol version,
	// time-out, session id and the length of the password.
	zooKeeperGrant = 20
)

// zooKeeperOps are the requests of ZooKeeper by their number; those of them with a path begin with it.
var zooKeeperOps = map[int32]struct {
	name string
	path bool
}{
	1: {"create", true}, 2: {"delete", true}, 3: {"exists", true}, 4: {"getData", true}, 5: {"setData", true},
	8: {"getChildren", true}, 9: {"sync", true}, 12: {"getChildren2", true}, 14: {"multi", false}, 15: {"create2", true},
}

// zooKeeperEvents are what a watch tells, by its number.
var zooKeeperEvents = map[int32]string{-1: "session", 1: "created", 2: "deleted", 3: "changed", 4: "children"}

func signed(p []byte) int32 { return int32(binary.BigEndian.Uint32(p)) }

// sized cuts a message from the beginning of p whose first four bytes are the length of the others; n 0 = it is not
// whole yet.
func sized(p []byte, longest int) (body []byte, n int, err error) {
	if len(p) < 4 {
		return nil, 0, nil
	}
	size := int(binary.BigEndian.Uint32(p))
	if size > longest {
		return nil, 0, fmt.Errorf("this is another protocol: a message of %d bytes", size)
	}
	if len(p) < 4+size {
		return nil, 0, nil
	}
	return p[4 : 4+size], 4 + size, nil
}

func (s *zooKeeperSession) Command(p []byte) (wire.Message, error) {
	body, n, err := sized(p, longestZooKeeper)
	if n == 0 || err != nil {
		return wire.Message{}, err
	}
	m := wire.Message{Size: n, Command: &wire.Command{}}
	k, number := m.Command, int32(0)
	switch {
	case !s.begun:
		s.begun = true
		k.Setup, k.Text, k.Pattern = true, "connect", "connect"
	case len(body) < 8:
		return m, errors.New("this is not ZooKeeper's protocol: a request without a number")
	default:
		number = signed(body)
		k.Text, k.Pattern = zooKeeperText(signed(body[4:]), body[8:])
		// Clients send pings by themselves. A session that trusts only the leader is renewed by a sync of the root.
		k.Poll = number == zooKeeperPing || k.Text == "sync /"
		k.Setup = number < 0 && !k.Poll || signed(body[4:]) == zooKeeperClose
		k.Quiet = number < 0
	}
	s.waiting = append(s.waiting, zooKeeperCall{number, k})
	return m, nil
}

func zooKeeperText(op int32, rest []byte) (text, pattern string) {
	known, ok := zooKeeperOps[op]
	switch {
	case op == zooKeeperClose:
		return "closeSession", "closeSession"
	case op == 11:
		return "ping", "ping"
	case !ok:
		return fmt.Sprintf("request %d (%d bytes)", op, len(rest)), fmt.Sprintf("request %d", op)
	}
	if path, ok := zooKeeperString(rest); ok && known.path {
		return known.name + " " + path, known.name + " " + Key(path)
	}
	return known.name, known.name
}

func zooKeeperString(p []byte) (text string, ok bool) {
	if len(p) < 4 {
		return "", false
	}
	size := int(signed(p))
	if size < 0 || len(p) < 4+size {
		return "", false
	}
	return string(p[4 : 4+size]), true
}

func (s *zooKeeperSession) Answer(p []byte) (wire.Message, error) {
	body, n, err := sized(p, longestZooKeeper)
	m := wire.Message{Size: n}
	if n == 0 || err != nil {
		return wire.Message{}, err
	}
	number, failed := int32(0), int32(0)
	if s.heard {
		if len(body) < 16 {
			return m, errors.New("this is not ZooKeeper's protocol: an answer without a number")
		}
		number, failed = signed(body), signed(body[12:])
		if number == zooKeeperEvent {
			m.Push = zooKeeperPush(body[16:])
			return m, nil
		}
	} else if len(body) >= zooKeeperGrant {
		size := min(max(int(signed(body[16:])), 0), len(body)-zooKeeperGrant)
		m.Granted = slices.Concat(body[8:16], body[zooKeeperGrant:zooKeeperGrant+size])
	}
	s.heard = true
	at := slices.IndexFunc(s.waiting, func(c zooKeeperCall) bool { return c.number == number })
	if at < 0 {
		return m, fmt.Errorf("this is not ZooKeeper's protocol: an answer with the number %d of no request", number)
	}
	m.Of, m.Last = s.waiting[at].call, true
	s.waiting = slices.Delete(s.waiting, at, at+1)
	if failed != 0 {
		m.Failed = strconv.Itoa(int(failed))
	}
	return m, nil
}

// zooKeeperPush is the event of a watch.
func zooKeeperPush(body []byte) *wire.Command {
	k := &wire.Command{}
	if len(body) < 8 {
		return k
	}
	kind := zooKeeperEvents[signed(body)]
	path, _ := zooKeeperString(body[8:])
	k.Text, k.Pattern = kind+" "+path, kind+" "+Key(path)
	return k
}
