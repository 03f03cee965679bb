package codec

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"golang.org/x/net/http2/hpack"

	"lastitem/stack/wire"
)

// said is what one side of a connection sent at once. A transcript of several is written as one text, for the fuzzer.
type said struct {
	server bool
	bytes  string
}

func transcript(all ...said) (text []byte) {
	for _, s := range all {
		side := byte('c')
		if s.server {
			side = 's'
		}
		text = append(binary.BigEndian.AppendUint32(append(text, side), uint32(len(s.bytes))), s.bytes...)
	}
	return text
}

func client(parts ...string) said { return said{false, strings.Join(parts, "")} }
func server(parts ...string) said { return said{true, strings.Join(parts, "")} }

// heard is what a codec made of a transcript: what went on in either direction, and which messages there were.
type heard struct {
	Up, Down string
	Messages []string
	Err      string
}

// hear reads a transcript in pieces of a size.
func hear(t *testing.T, codec wire.Codec, text []byte, size int) (h heard) {
	t.Helper()
	s := codec.Begin()
	var rest [2][]byte
	for len(text) >= 5 {
		n := min(int(binary.BigEndian.Uint32(text[1:])), len(text)-5)
		bytes, isServer := text[5:5+n], text[0] == 's'
		text = text[5+n:]
		for len(bytes) > 0 {
			piece := bytes[:min(size, len(bytes))]
			bytes = bytes[len(piece):]
			side, next, out := &rest[0], s.Command, &h.Up
			if isServer {
				side, next, out = &rest[1], s.Answer, &h.Down
			}
			*side = append(*side, piece...)
			if !h.hear(t, side, next, out) {
				return h
			}
		}
	}
	return h
}

func (h *heard) hear(t *testing.T, rest *[]byte, next func([]byte) (wire.Message, error), out *string) bool {
	t.Helper()
	for len(*rest) > 0 {
		m, err := next(*rest)
		if err != nil {
			h.Err = err.Error()
			return false
		}
		if m.Size == 0 {
			return true
		}
		if m.Size < 0 || m.Size > len(*rest) {
			t.Fatalf("a message of %d bytes, of %d", m.Size, len(*rest))
		}
		if m.Data == nil {
			m.Data = (*rest)[:m.Size]
		}
		if m.Reply != nil {
			h.Down += string(m.Reply)
		} else {
			*out += string(m.Data)
		}
		*rest = (*rest)[m.Size:]
		switch {
		case m.Command != nil && m.Command.Setup:
			h.Messages = append(h.Messages, "setup "+m.Command.Text)
		case m.Command != nil && m.Command.Poll:
			h.Messages = append(h.Messages, "poll "+m.Command.Text)
		case m.Command != nil && m.Command.Inside:
		case m.Command != nil:
			h.Messages = append(h.Messages, m.Command.Text+" | "+m.Command.Pattern)
		case m.Push != nil:
			h.Messages = append(h.Messages, "push "+m.Push.Text)
		case m.Last && m.Of != nil && !m.Of.Inside:
			h.Messages = append(h.Messages, strings.TrimSpace("answer "+m.Of.Text+" "+m.Failed))
		}
	}
	return true
}

func bulk(words ...string) string {
	return string(respOf(words))
}

func respOf(words []string) (b []byte) {
	b = append(b, '*')
	b = append(appendInt(b, len(words)), "\r\n"...)
	for _, w := range words {
		b = append(appendInt(append(b, '$'), len(w)), "\r\n"+w+"\r\n"...)
	}
	return b
}

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }

// packets are MySQL's, numbered from a number on.
func packets(number byte, bodies ...string) (all string) {
	for _, b := range bodies {
		n := len(b)
		all += string([]byte{byte(n), byte(n >> 8), byte(n >> 16), number}) + b
		number++
	}
	return all
}

// greeting and login are those of a connection with capabilities, of MySQL's and MariaDB's own.
func greeting(caps, maria uint32) string {
	b := append([]byte("\x0a10.11\x00"), "iiiiscrambl1\x00"...)
	b = binary.LittleEndian.AppendUint16(b, uint16(caps))
	b = append(b, 33, 2, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(caps>>16))
	b = append(b, 21, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, maria)
	return packets(0, string(b)+"scrambl2scrambl2\x00")
}

func login(caps, maria uint32) string {
	b := binary.LittleEndian.AppendUint32(nil, caps)
	b = append(b, make([]byte, 24)...)
	b = binary.LittleEndian.AppendUint32(b, maria)
	return packets(1, string(b)+"me\x00\x00")
}

const (
	okPacket  = "\x00\x00\x00\x02\x00\x00\x00"
	eofPacket = "\xfe\x00\x00\x02\x00"
	okAsEOF   = "\xfe\x00\x00\x02\x00\x00\x00"
	column    = "\x03def column"
)

// framed is a message behind its length.
func framed(body string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
}

// http2 writes the frames of one side.
type http2 struct {
	block   bytes.Buffer
	encoder *hpack.Encoder
}

func (w *http2) headers(stream uint32, ends bool, fields ...string) string {
	if w.encoder == nil {
		w.encoder = hpack.NewEncoder(&w.block)
	}
	for i := 0; i < len(fields); i += 2 {
		_ = w.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	flags := byte(0)
	if ends {
		flags = flagEndStream
	}
	half := w.block.Next(w.block.Len() / 2)
	all := appendFrame(nil, frameHeaders, flags, stream, half)
	return string(appendFrame(all, frameMore, flagEndHead, stream, w.block.Next(w.block.Len())))
}

func (w *http2) data(stream uint32, ends bool, bytes string) string {
	flags := byte(0)
	if ends {
		flags = flagEndStream
	}
	return string(appendFrame(nil, frameData, flags, stream, []byte(bytes)))
}

func grpcBytes(m interface{ Marshal() ([]byte, error) }) string {
	b, err := m.Marshal()
	if err != nil {
		panic(err)
	}
	return "\x00" + framed(string(b))
}

// A talk is a transcript and what is to be heard of it.
type talk struct {
	codec wire.Codec
	text  []byte
	want  []string
}

func talks() map[string]talk {
	const all = 0xffffffff &^ (capTLS | capCompress | capZstd | capOptionalMetadata | capQueryAttributes | capDeprecateEOF)
	const maria = (all | capDeprecateEOF) &^ capLongPassword
	metadata := talk{
		MySQL, transcript(
			server(greeting(maria, mariaCacheMetadata)), client(login(maria, mariaCacheMetadata)), server(packets(2, okPacket)),
			client(packets(0, "\x16SELECT a FROM t WHERE id = ?"), packets(0, "\x17\xff\xff\xff\xff\x00\x01\x00\x00\x00")),
			server(packets(1, "\x00\x07\x00\x00\x00\x01\x00\x01\x00\x00\x00\x00", column, column)),
			server(packets(1, "\x01\x00", "\x00\x00row", okAsEOF)),
			client(packets(0, "\x17\x07\x00\x00\x00\x00\x01\x00\x00\x00")),
			server(packets(1, "\x01\x01", column, "\x00\x00row", okAsEOF)),
		), []string{
			"setup LOGIN me", "answer LOGIN me", "PREPARE SELECT a FROM t WHERE id = ? | PREPARE SELECT a FROM t WHERE id = ?",
			"EXECUTE statement 4294967295 | SELECT a FROM t WHERE id = ?", "answer PREPARE SELECT a FROM t WHERE id = ?",
			"answer EXECUTE statement 4294967295", "EXECUTE statement 7 | SELECT a FROM t WHERE id = ?",
			"answer EXECUTE statement 7",
		},
	}
	return map[string]talk{
		"redis": {Redis, transcript(
			client(bulk("HELLO", "3"), bulk("set", "stock:{7}", "\r\n"), "PING\r\n\r\n", bulk("MULTI"), bulk("INCR", "a:1"),
				bulk("EXEC")),
			server("%1\r\n+proto\r\n:3\r\n+OK\r\n+PONG\r\n+OK\r\n+QUEUED\r\n*1\r\n:1\r\n"),
			client(bulk("SUBSCRIBE", "a", "b"), bulk("GET", "x"), bulk("LRANGE", "y", "0", "1")),
			server(">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n|1\r\n+ttl\r\n:3\r\n"+
				"$-1\r\n"),
			server(">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$5\r\nhello\r\n*2\r\n$7\r\nmessage\r\n*2\r\n#t\r\n(12\r\n"),
			client(bulk("HGET", "x", "y")), server("-WRONGTYPE no\r\n"),
			client(bulk("RESET"), bulk("LRANGE", "y", "0", "1")), server("+RESET\r\n*2\r\n$7\r\nmessage\r\n$1\r\na\r\n"),
			client(bulk("SUBSCRIBE", "a")), server("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$1\r\n"+
				"a\r\n$2\r\nhi\r\n"),
		), []string{
			"setup HELLO 3", `SET stock:{7} "\r\n" | SET stock:{#}`, "setup PING",
			"MULTI; INCR a:1; EXEC | MULTI; INCR a:#; EXEC", "answer HELLO 3",
			`answer SET stock:{7} "\r\n"`, "answer PING", "answer MULTI; INCR a:1; EXEC",
			"poll SUBSCRIBE a b", "GET x | GET x", "LRANGE y 0 1 | LRANGE y", "answer SUBSCRIBE a b", "answer GET x",
			"push MESSAGE a hello",
			"answer LRANGE y 0 1", "HGET x y | HGET x", "answer HGET x y WRONGTYPE", "setup RESET", "LRANGE y 0 1 | LRANGE y",
			"answer RESET",
			"answer LRANGE y 0 1", "poll SUBSCRIBE a", "answer SUBSCRIBE a", "push MESSAGE a hi",
		}},
		"redis, RESP 2": {Redis, transcript(
			client(bulk("PSUBSCRIBE", "a*"), bulk("PING"), bulk("PUNSUBSCRIBE")),
			server("*3\r\n$10\r\npsubscribe\r\n$2\r\na*\r\n:1\r\n*4\r\n$8\r\npmessage\r\n$2\r\na*\r\n$2\r\nab\r\n$2\r\nhi\r\n"),
			server("*2\r\n$4\r\npong\r\n$0\r\n\r\n*3\r\n$12\r\npunsubscribe\r\n$2\r\na*\r\n:0\r\n"),
			client(bulk("LRANGE", "x", "0", "-1")), server("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n"),
		), []string{
			"poll PSUBSCRIBE a*", "setup PING", "poll PUNSUBSCRIBE", "answer PSUBSCRIBE a*", "push PMESSAGE a* ab hi",
			"answer PING", "answer PUNSUBSCRIBE",
			"LRANGE x 0 -1 | LRANGE x", "answer LRANGE x 0 -1",
		}},
		"mysql": {MySQL, transcript(
			server(greeting(all, 0)), client(login(all, 0)), server(packets(2, "\xfeauth switch")), client(packets(3, "secret")),
			server(packets(4, okPacket)), client(packets(0, "\x03SET NAMES utf8mb4")), server(packets(1, okPacket)),
			client(packets(0, "\x03/* job */ SELECT 1, 'it''s'; CALL p(2)")),
			server(packets(1, "\x02", column, column, eofPacket, "\x011\xfb", "\xfe\x00\x00\x0a\x00", "\x01", column, eofPacket,
				eofPacket[:3]+"\x08\x00")),
			server(packets(9, "\x00\x01\x00\x08\x00\x00\x00", okPacket)),
			client(packets(0, "\x16INSERT INTO t VALUES (?, ?)")), server(packets(1,
				"\x00\x01\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00", column, column, eofPacket)),
			client(packets(0, "\x17\x01\x00\x00\x00\x01\x01\x00\x00\x00")),
			server(packets(1, "\x01", column, "\xfe\x00\x00\x42\x00")),
			client(packets(0, "\x1c\x01\x00\x00\x00\x05\x00\x00\x00")),
			server(packets(1, "\x00row", "\xfe\x00\x00\x82\x00")), client(packets(0, "\x19\x01\x00\x00\x00"),
				packets(0, "\x03LOAD DATA")),
			server(packets(1, "\xfbfile")), client(packets(2, "1,2\n", "")), server(packets(4, "\xff\x15\x04#42000no")),
			client(packets(0, "\x03COMMIT")), server(packets(1, "\xff\xff\xff\x01half", okPacket)), client(packets(0, "\x01")),
		), []string{
			"setup LOGIN me", "answer LOGIN me", "setup SET NAMES utf8mb4", "answer SET NAMES utf8mb4",
			"/* job */ SELECT 1, 'it''s'; CALL p(2) | SELECT ?; CALL p(?)", "answer /* job */ SELECT 1, 'it''s'; CALL p(2)",
			"PREPARE INSERT INTO t VALUES (?, ?) | PREPARE INSERT INTO t VALUES (?)",
			"answer PREPARE INSERT INTO t VALUES (?, ?)",
			"EXECUTE statement 1 | INSERT INTO t VALUES (?)", "answer EXECUTE statement 1", "FETCH | FETCH", "answer FETCH",
			"setup CLOSE STATEMENT",
			"LOAD DATA | LOAD DATA", "answer LOAD DATA 1045", "COMMIT | COMMIT", "answer COMMIT", "setup QUIT",
		}},
		"mariadb": metadata,
		"http": {HTTP, transcript(
			client("PUT /v1/kv/a%20b/7 HTTP/1.1\r\ncontent-length: 2\r\n\r\nhiPOST /x HTTP/1.1\r\nTransfer-Encoding: "+
				"chunked\r\n\r\n2;e=1\r\nhe\r\n1\r\ny\r\n0\r\nT: 1\r\n\r\n"),
			client("HEAD / HTTP/1.1\r\n\r\nGET /v1/kv/x?index=7&wait=1s HTTP/1.1\r\nHost: y\r\n\r\n"),
			server("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes"),
			server("HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: 1\r\n\r\n"),
			server("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"),
			client("GET /end HTTP/1.1\r\n\r\n"), server("HTTP/1.1 200 OK\r\n\r\nuntil the end"),
		), []string{
			"PUT /v1/kv/a%20b/7 hi | PUT /v1/kv/a%#b/#", "POST /x hey | POST /x", "HEAD / | HEAD /",
			"poll GET /v1/kv/x?index=7&wait=1s",
			"answer PUT /v1/kv/a%20b/7 hi", "answer POST /x hey 404", "answer HEAD /", "answer GET /v1/kv/x?index=7&wait=1s",
			"GET /end | GET /end",
		}},
		"grpc":      grpcTalk(),
		"zookeeper": zooKeeperTalk(),
		"postgres":  postgresTalk(),
	}
}

func grpcTalk() (t talk) {
	var c, s http2
	get := grpcBytes(&pb.RangeRequest{Key: []byte("lock/7")})
	create := &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("a")}}
	watch := grpcBytes(&pb.WatchRequest{RequestUnion: create})
	created := grpcBytes(&pb.WatchResponse{Created: true})
	event := grpcBytes(&pb.WatchResponse{Events: []*mvccpb.Event{{Type: mvccpb.DELETE,
		Kv: &mvccpb.KeyValue{Key: []byte("a")}}}})
	t.codec, t.want = GRPC, []string{
		`KV.Range key:"lock/7" | KV.Range lock/#`, `poll Watch.Watch create_request:<key:"a" >`,
		`answer Watch.Watch create_request:<key:"a" >`,
		"push events DELETE a", `answer KV.Range key:"lock/7"`, "push events DELETE a",
		`KV.Range key:"lock/7" | KV.Range lock/#`,
		`answer KV.Range key:"lock/7" 14`,
	}
	t.text = transcript(
		client(http2Preface, string(appendFrame(nil, 4, 0, 0, nil)),
			c.headers(1, false, ":path", "/etcdserverpb.KV/Range", "x", "y"), c.data(1, false, get[:3])),
		client(c.headers(3, false, ":path", "/etcdserverpb.Watch/Watch", "x", "y"), c.data(1, false, get[3:]),
			c.data(1, true, ""), c.data(3, false, watch)),
		server(string(appendFrame(nil, 4, 0, 0, nil)), s.headers(3, false, ":status", "200"),
			s.data(3, false, created+event)),
		server(s.headers(1, false, ":status", "200", "a", "b"), s.data(1, false, grpcBytes(&pb.RangeResponse{Count: 1})),
			s.headers(1, true, "grpc-status", "0", "a", "b")),
		server(s.data(3, false, event[:9]), s.data(3, false, event[9:])),
		client(c.headers(5, false, ":path", "/etcdserverpb.KV/Range", "x", "y"), c.data(5, true, get)),
		server(s.headers(5, true, ":status", "200", "grpc-status", "14", "a", "b")),
	)
	return t
}

func zooKeeperTalk() (t talk) {
	t.codec, t.want = ZooKeeper, []string{
		"setup connect", "answer connect", "create /lock/7 | create /lock/#", "poll ping", "answer create /lock/7 -110",
		"push deleted /lock/7", "answer ping",
		"setup closeSession", "answer closeSession",
	}
	number := func(n int32) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) }
	answer := func(n, failed int32) string { return framed(number(n) + "zxidzxid" + number(failed)) }
	t.text = transcript(
		client(framed("hello")), server(framed("hello")),
		client(framed(number(1)+number(1)+framed("/lock/7")), framed(number(-2)+number(11))),
		server(answer(1, -110), framed(number(-1)+"zxidzxid"+number(0)+number(2)+number(3)+framed("/lock/7")), answer(-2, 0)),
		client(framed(number(2)+number(-11))), server(answer(2, 0)),
	)
	return t
}

// Whatever the network cuts, the messages are the same, and so is what goes on.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	for name, talk := range talks() {
		whole := cutAnywhere(t, name, talk.codec, talk.text)
		if diff := cmp.Diff(talk.want, whole.Messages); diff != "" || whole.Err != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, whole.Err, diff)
		}
	}
}

// cutAnywhere reads a transcript at once, and compares that with what it reads in pieces.
func cutAnywhere(t *testing.T, name string, codec wire.Codec, text []byte) (whole heard) {
	t.Helper()
	whole = hear(t, codec, text, len(text))
	for _, size := range []int{1, 2, 3, 5, 7, 64} {
		if diff := cmp.Diff(whole, hear(t, codec, text, size)); diff != "" {
			t.Errorf("%s by %d bytes (-whole +cut):\n%s", name, size, diff)
		}
	}
	return whole
}
