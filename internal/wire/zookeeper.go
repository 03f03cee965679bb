package wire

import (
	"encoding/binary"
	"fmt"
)

// zooKeeperOps are the requests of ZooKeeper by their number; those of them with a path begin with it.
var zooKeeperOps = map[uint32]struct {
	name string
	path bool
}{
	1: {"create", true}, 2: {"delete", true}, 3: {"exists", true}, 4: {"getData", true}, 5: {"setData", true},
	8: {"getChildren", true}, 9: {"sync", true}, 12: {"getChildren2", true}, 14: {"multi", false}, 15: {"create2", true},
}

// ZooKeeper reads ZooKeeper's protocol: which request, and on which node. The first message of a connection asks for the session,
// and negative numbers are the client's own (pings, authentication); they are left out.
func ZooKeeper() (sent, heard Reader) {
	var buf []byte
	begun := false
	return func(p []byte) (calls []*Call) {
		buf = append(buf, p...)
		for len(buf) >= 4 {
			size := int(binary.BigEndian.Uint32(buf))
			if len(buf) < 4+size {
				break
			}
			body := buf[4 : 4+size]
			if begun && size >= 8 && int32(binary.BigEndian.Uint32(body)) >= 0 { //nolint:gosec // the number is signed on the wire
				calls = append(calls, &Call{Text: zooKeeperText(binary.BigEndian.Uint32(body[4:]), body[8:])})
			}
			begun = true
			buf = buf[4+size:]
		}
		return calls
	}, nil
}

func zooKeeperText(op uint32, rest []byte) string {
	known, ok := zooKeeperOps[op]
	if !ok {
		return fmt.Sprintf("request %d (%d bytes)", op, len(rest))
	}
	if known.path && len(rest) >= 4 {
		if size := int(binary.BigEndian.Uint32(rest)); len(rest) >= 4+size {
			return known.name + " " + string(rest[4:4+size])
		}
	}
	return known.name
}
