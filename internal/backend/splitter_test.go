package backend_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"lastitem/internal/backend"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// otherServer is a session with the same server under another name: it is asked for a number, in place of its own.
type otherServer struct{ net.Conn }

func (o otherServer) Write(packet []byte) (int, error) {
	said := bytes.Replace(packet, []byte("UUID_SHORT()"), []byte("1 << 24 + 23"), 1) // as long
	return o.Conn.Write(said)
}

// A read-write splitter between the shop and its database is warned of, and a proxy that splits nothing is not.
func TestSplitterIsWarnedOf(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	migrated(t, dsn)
	cfg := parsed(t, dsn)
	proxy := storetest.Gate(t, cfg.Addr, codec.MySQL)
	for _, splits := range []bool{true, false} {
		var elsewhere otherServer
		direct := parsed(t, dsn)
		direct.DialFunc = func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
			elsewhere.Conn, err = new(net.Dialer).DialContext(ctx, network, addr)
			return elsewhere.Conn, err
		}
		connector, err := mysql.NewConnector(direct)
		testkit.Must(t, err)
		session, err := connector.Connect(t.Context())
		testkit.Must(t, err)
		rule := proxy.Add(wire.Rule{Every: true, Match: func(wire.Call) bool { return splits },
			Instead: func(ask func(io.ReadWriter) ([]byte, error)) ([]byte, error) { return ask(elsewhere) }})
		cfg.Addr = proxy.Addr
		var log bytes.Buffer
		s := probing(t, backend.Config{SQL: cfg.FormatDSN(), Log: slog.New(slog.NewTextHandler(&log, nil))})
		becomes(t, s, "sql", false)
		s.StopProbes()
		if strings.Contains(log.String(), "answered by another server") != splits {
			t.Errorf("a warning: %t, want %t:\n%s", !splits, splits, &log)
		}
		rule.Cancel()
		testkit.Must(t, session.Close())
	}
	testkit.Must(t, proxy.Err())
}
