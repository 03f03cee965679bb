package codec

import (
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/testkit"

	"lastitem/stack/wire"
)

// A length that is none is refused, wherever it comes from; such a head must not end the process of the proxy.
func TestHTTPRefusesLengths(t *testing.T) {
	t.Parallel()
	for _, length := range []string{"-5", "5x", "99999999999999999999"} {
		s := HTTP.Begin()
		m, err := s.Command([]byte("POST / HTTP/1.1\r\nContent-Length: " + length + "\r\n\r\nhello"))
		if err == nil {
			t.Errorf("a request with the length %s: %d bytes, want an error", length, m.Size)
		}
		s = HTTP.Begin()
		_, err = s.Command([]byte("GET / HTTP/1.1\r\n\r\n"))
		testkit.Must(t, err)
		answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: " + length + "\r\n\r\nhello")
		m, err = s.Answer(answer)
		if err == nil && m.Size > 0 {
			m, err = s.Answer(answer[m.Size:])
		}
		if err == nil {
			t.Errorf("an answer with the length %s: %d bytes of the body, want an error", length, m.Size)
		}
	}
}

// fuzz reads what the fuzzer makes of the transcripts: nothing may break a reader, and where it is cut makes no
// difference.
func fuzz(f *testing.F, names ...string) {
	talks := talks()
	for _, name := range names {
		for _, size := range []int{1, 3, 16} {
			f.Add(talks[name].text, size)
		}
	}
	codec := talks[names[0]].codec
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		size = 1 + max(size, -size-1)%64
		whole, cut := hear(t, codec, text, max(1, len(text))), hear(t, codec, text, size)
		if whole.Err != "" && cut.Err != "" { // how far a reader gets before it finds out that it cannot read may differ
			return
		}
		if diff := cmp.Diff(whole, cut); diff != "" {
			t.Errorf("by %d bytes (-whole +cut):\n%s", size, diff)
		}
	})
}

func FuzzRedis(f *testing.F)     { fuzz(f, "redis") }
func FuzzMySQL(f *testing.F)     { fuzz(f, "mysql", "mariadb") }
func FuzzPostgres(f *testing.F)  { fuzz(f, "postgres") }
func FuzzHTTP(f *testing.F)      { fuzz(f, "http") }
func FuzzGRPC(f *testing.F)      { fuzz(f, "grpc") }
func FuzzZooKeeper(f *testing.F) { fuzz(f, "zookeeper") }

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
		codec   wire.Codec
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
		s := c.codec.Begin()
		if z, ok := s.(*zooKeeperSession); ok {
			z.begun = true
		}
		m, err := s.Command([]byte(c.message))
		if err != nil || m.Command == nil || m.Command.Poll != c.poll {
			t.Errorf("%q: %+v, %v; want poll %t", c.message, m.Command, err, c.poll)
		}
	}
}

func TestSaid(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]string{
		"$1\r\n7\r\n": "7", "$-1\r\n": "nil", "_\r\n": "nil", "*-1\r\n": "nil", "+OK\r\n": "OK", ":3\r\n": "3",
		"-ERR no\r\n":             "ERR no",
		"*2\r\n$1\r\na\r\n:2\r\n": "[a, 2]", "*1\r\n*1\r\n:2\r\n": "[…]", "*0\r\n": "[]", "$5\r\nab": "", "": "",
	} {
		testkit.Is(t, respSaid([]byte(reply)), want, "respSaid(%q)", reply)
	}
	packet := func(n byte, body string) string { return string([]byte{byte(len(body)), 0, 0, n}) + body }
	columns := packet(1, "\x02") + packet(2, "def of stock") + packet(3, "def of seq")
	for name, tt := range map[string]struct{ answer, want string }{
		"changed one":  {packet(1, "\x00\x01\x00\x02\x00\x00\x00"), "1 row"},
		"changed none": {packet(1, "\x00\x00\x00\x02\x00\x00\x00"), "0 rows"},
		"an error":     {packet(1, "\xff\xb5\x04#40001deadlock"), "ERROR 1205"},
		"a row": {columns + packet(4, "\xfe\x00\x00\x02\x00") + packet(5, "\x011\xfb") +
			packet(6, "\xfe\x00\x00\x02\x00"), "1, NULL"},
		"without an EOF":   {columns + packet(4, "\x011\x0220"), "1, 20"},
		"no row":           {columns + packet(4, "\xfe\x00\x00\x02\x00") + packet(5, "\xfe\x00\x00\x02\x00"), "0 rows"},
		"half a result":    {packet(1, "\x02") + packet(2, "def of stock"), ""},
		"nothing so far":   {"", ""},
		"half of a packet": {"\x05\x00\x00\x01\x00", ""},
		"an error later": {columns + packet(4, "\xfe\x00\x00\x02\x00") + packet(5, "\xff\xb5\x04#HY000time-out"),
			"ERROR 1205"},
		"half a row":     {columns + packet(4, "\xfe\x00\x00\x02\x00") + "\x05\x00\x00\x05\x01", ""},
		"known columns":  {packet(1, "\x02\x00") + packet(2, "\x011\x0220") + packet(3, "\xfe\x00\x00\x02\x00"), ""},
		"no such length": {packet(1, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff"), ""},
	} {
		testkit.Is(t, mysqlSaid([]byte(tt.answer)), tt.want, "%s: mysqlSaid", name)
	}
}

// The rows of a prepared statement have another form.
func TestSaidBinary(t *testing.T) {
	t.Parallel()
	const (
		tiny, unsignedTiny = "def\x0c\x3f\x00\x04\x00\x00\x00\x01\x00\x00\x00\x00\x00",
			"def\x0c\x3f\x00\x04\x00\x00\x00\x01\x20\x00\x00\x00\x00"
		long, text = "def\x0c\x3f\x00\x14\x00\x00\x00\x08\x00\x00\x00\x00\x00",
			"def\x0c\x21\x00\x14\x00\x00\x00\xfd\x00\x00\x00\x00\x00"
		date = "def\x0c\x3f\x00\x14\x00\x00\x00\x0c\x00\x00\x00\x00\x00"
	)
	result := func(row string, columns ...string) []byte {
		all := append([]string{string([]byte{byte(len(columns))})}, columns...)
		return []byte(packets(1, append(all, "\xfe\x00\x00\x02\x00", row, "\xfe\x00\x00\x02\x00")...))
	}
	for name, tt := range map[string]struct {
		answer []byte
		want   string
	}{
		"whole numbers": {result("\x00\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xfb\xfb", long, tiny, unsignedTiny),
			"-2, -5, 251"},
		"text and NULL":  {result("\x00\x08\x02ab\x00", text, tiny, text), "ab, NULL, "},
		"a time":         {result("\x00\x00\x00", date), ""},
		"half a number":  {result("\x00\x00\x01\x02", long), ""},
		"half of a text": {result("\x00\x00\x05ab", text), ""},
		"no row":         {[]byte(packets(1, "\x01", long, "\xfe\x00\x00\x02\x00", "\xfe\x00\x00\x02\x00")), "0 rows"},
		"changed one":    {[]byte(packets(1, "\x00\x01\x00\x02\x00\x00\x00")), "1 row"},
	} {
		testkit.Is(t, mysqlSaidBinary(tt.answer), tt.want, "%s: mysqlSaidBinary", name)
	}
}

// asked is a server that answers a command with packets, and keeps the command.
type asked struct {
	io.Reader
	got []byte
}

// Write makes asked an io.Writer.
func (a *asked) Write(p []byte) (int, error) {
	a.got = append(a.got, p...)
	return len(p), nil
}

// An answer from elsewhere gets the form that the client has asked for: no packet between columns and rows, a byte that
// says that columns follow, one more part in a column.
func TestMySQLElsewhereForm(t *testing.T) {
	t.Parallel()
	const column, extra = "\x03def\x01d\x01t\x01t\x01n\x01n\x0c12", "\x03def\x01d\x01t\x01t\x01n\x01n\x00\x0c12"
	const row = "\x015"
	const eof, ok, inTransaction = "\xfe\x00\x00\x02\x00", "\xfe\x00\x00\x02\x00\x00\x00", "\xfe\x00\x00\x03\x00"
	for name, c := range map[string]struct {
		form mysqlForm
		want []string
	}{
		"plain":             {mysqlForm{}, []string{"\x01", column, eof, row, eof}},
		"no EOF":            {mysqlForm{caps: capDeprecateEOF}, []string{"\x01", column, row, ok}},
		"optional columns":  {mysqlForm{caps: capOptionalMetadata}, []string{"\x01\x01", column, eof, row, eof}},
		"MariaDB's own":     {mysqlForm{mariaCaps: mariaColumnExtras}, []string{"\x01", extra, eof, row, eof}},
		"MariaDB's, no EOF": {mysqlForm{capDeprecateEOF, mariaCacheMetadata}, []string{"\x01\x01", column, row, ok}},
	} {
		server := &asked{Reader: strings.NewReader(packets(1, "\x01", column, inTransaction, row, inTransaction))}
		got, err := c.form.ask(server, []byte("\x03SELECT n FROM t"))
		testkit.Must(t, err)
		if diff := cmp.Diff(packets(1, c.want...), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		testkit.Is(t, string(server.got), "\x10\x00\x00\x00\x03SELECT n FROM t", "%s: the command", name)
	}
}
