// Package codec reads the protocols of servers for the proxies of package wire: [Redis], [MySQL], [Postgres], [HTTP]
// for Consul, [GRPC] for etcd, and [ZooKeeper]. None of them knows another.
package codec

import "strconv"

// maxMessage is longer than any message that a client or a server sends; a greater length means another protocol.
const maxMessage = 1 << 30

func quote(w string) string {
	plain, printable, single := w != "", w != "", false
	for i := range len(w) {
		switch c := w[i]; {
		case c < ' ' || c > '~':
			plain, printable = false, false
		case c == '\'':
			plain, single = false, true
		case c == ' ' || c == '"' || c == '\\':
			plain = false
		}
	}
	switch {
	case plain:
		return w
	case printable && !single:
		return "'" + w + "'"
	}
	return strconv.Quote(w)
}
