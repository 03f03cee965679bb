package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lastitem/contract/api"
	"lastitem/judge"
	"lastitem/target"
	"lastitem/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answers are the fuzzer's seeds: one for each framing of an answer, and some that no parser should accept.
var answers = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
	"HTTP/1.1 200\r\ncontent-length:2\r\n\r\n{}HTTP/1.1 204 X\r\n\r\n",
	"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json\r\nX-Replica: 2\r\nRetry-After: 7\r\n" +
		"Content-Length: 19\r\n\r\n{\"code\":\"sold_out\"}",
	"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nuntil the end",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: t\r\n\r\n",
	"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n1\r\na\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
	"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 101 Switching Protocols\r\n\r\n",
	"HTTP/1.x 200 OK\r\n\r\n",
	"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
	"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", readBuffer) + "\r\n\r\n",
}

// FuzzParser: an answer that both this parser and that of net/http accept is the same to both, body included; one that
// comes byte by byte is the same as one that comes at once; and no answer takes more memory than the limit. The seeds
// run in every test; 'go test -fuzz FuzzParser ./loadtest/client' looks for more.
func FuzzParser(f *testing.F) {
	for _, text := range answers {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		parse := func(r io.Reader) (Answer, bool, []byte, error) {
			p := parser{names: interned{}}
			a, reusable, err := p.read(bufio.NewReaderSize(r, readBuffer))
			return a, reusable, p.body, err
		}
		got, reusable, body, err := parse(bytes.NewReader(text))
		if len(body) > maxBody+readBuffer {
			t.Fatalf("the body has %d bytes, want at most %d", len(body), maxBody)
		}
		slow, slowReusable, slowBody, slowErr := parse(iotest.OneByteReader(bytes.NewReader(text)))
		if (err == nil) != (slowErr == nil) || err == nil && (!cmp.Equal(got, slow) || reusable != slowReusable ||
			!bytes.Equal(body, slowBody)) {
			t.Fatalf("at once: %+v %t %q %v\nbyte by byte: %+v %t %q %v", got, reusable, body, err, slow, slowReusable, slowBody,
				slowErr)
		}
		if err != nil {
			return
		}
		status, wanted, ok := byNetHTTP(text)
		if ok && (got.Status != status || !bytes.Equal(body, wanted)) {
			t.Fatalf("%d %q, want as by net/http %d %q", got.Status, body, status, wanted)
		}
	})
}

// byNetHTTP reads the answer with net/http; false if that does not accept it.
func byNetHTTP(text []byte) (status int, body []byte, ok bool) {
	in := bufio.NewReader(bytes.NewReader(text))
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return 0, nil, false
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return 0, nil, false
		}
		if resp.StatusCode >= 200 {
			return resp.StatusCode, body, true
		}
	}
}

// A request without a reply is unknown, or was never sent; a reply is read.
func TestClassify(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer  Answer
		outcome judge.Outcome
		code    api.Code
		kind    Kind
	}{
		"timeout":        {Answer{Sent: true, Err: ErrTimeout}, judge.Unknown, "timeout", Failed},
		"half an ok":     {Answer{Reply: target.Reply{Status: 200}, Sent: true, Err: ErrEOF}, judge.Unknown, "eof", Failed},
		"not connected":  {Answer{Err: ErrRefused}, judge.Declined, "refused_connection", Failed},
		"dial timed out": {Answer{Err: ErrTimeout}, judge.Declined, "refused_connection", Failed},
	} {
		said, kind := Classify(&tt.answer, "", target.Read)
		if said.Outcome != tt.outcome || said.Code != tt.code || kind != tt.kind || !said.Again {
			t.Errorf("%s: %+v, %s, want %s by %s, %s, to be sent again", name, said, kind, tt.outcome, tt.code, tt.kind)
		}
	}
	for outcome, want := range map[judge.Outcome]Kind{judge.OK: Accepted, judge.Refused: Refused, judge.Declined: Refused,
		judge.Unknown: Failed} {
		read := func(judge.ReservationKind, target.Reply) target.Answer { return target.Answer{Outcome: outcome} }
		if said, kind := Classify(&Answer{Sent: true}, "", read); said.Outcome != outcome || kind != want {
			t.Errorf("%s is read as %s, %s", outcome, said.Outcome, kind)
		}
	}
}

func TestParserReads(t *testing.T) {
	t.Parallel()
	const body = "Content-Length: 18\r\n\r\n" + `{"order_id":"o-1"}`
	order := Answer{Reply: target.Reply{Status: 200, Body: []byte(`{"order_id":"o-1"}`)}}
	tests := []struct {
		name, text string
		want       Answer
		reusable   bool
	}{
		{"no reason", "HTTP/1.1 200\r\n" + body, order, true},
		{"bare newlines", "HTTP/1.1 200 OK\nContent-Length: 18\n\n" + `{"order_id":"o-1"}`, order, true},
		{"lower case", "HTTP/1.1 200 OK\r\ncontent-length:18\r\n\r\n" + `{"order_id":"o-1"}`, order, true},
		{"close among others", "HTTP/1.1 200 OK\r\nConnection: foo, Close\r\n" + body, order, false},
		{"1.0", "HTTP/1.0 200 OK\r\n" + body, order, false},
		{"1.0 kept", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n" + body, order, true},
		{"until the end", "HTTP/1.1 200 OK\r\n\r\n" + `{"order_id":"o-1"}`, order, false},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", Answer{Reply: target.Reply{Status: 204}}, true},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nC;x=y\r\n" + `{"order_id":` + "\r\n6\r\n" +
			`"o-1"}` + "\r\n0\r\nTrailer: t\r\n\r\n", order, true},
		{
			"no problem", "HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nContent-Length: 19\r\n\r\n" +
				`{"code":"sold_out"}`,
			Answer{Reply: target.Reply{Status: 409, Body: []byte(`{"code":"sold_out"}`)}}, true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := parser{names: interned{}}
			got, reusable, err := p.read(bufio.NewReader(strings.NewReader(tt.text)))
			if err != nil || reusable != tt.reusable {
				t.Errorf("read() = reusable %v, error %v, want %v, nil", reusable, err, tt.reusable)
			}
			testkit.Same(t, got, tt.want, "read()")
		})
	}
}

func TestParserRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       error
	}{
		{"nothing", "", io.EOF},
		{"half a status", "HTTP/1.1 2", io.EOF},
		{"other protocol", "SSH-2.0-OpenSSH_9\r\n", errBadAnswer},
		{"letters for a status", "HTTP/1.1 2x0 OK\r\n\r\n", errBadAnswer},
		{"long status", "HTTP/1.1 2000 OK\r\n\r\n", errBadAnswer},
		{"switched", "HTTP/1.1 101 Switching Protocols\r\n\r\n", errBadAnswer},
		{"headers cut", "HTTP/1.1 200 OK\r\nContent-Le", io.ErrUnexpectedEOF},
		{"header without colon", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", errBadAnswer},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", errBadAnswer},
		{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}", errBadAnswer},
		{"huge length", "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n{}", errBadAnswer},
		{"gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n{}", errBadAnswer},
		{"body cut", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}", io.ErrUnexpectedEOF},
		{"chunk cut", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}", io.ErrUnexpectedEOF},
		{"chunk without end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}xx\r\n0\r\n\r\n", errBadAnswer},
		{"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", io.ErrUnexpectedEOF},
		{"no trailer end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", io.ErrUnexpectedEOF},
		{"long line", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", readBuffer) + "\r\n\r\n", errBadAnswer},
		{"endless", "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat(" ", maxBody+4096), errBadAnswer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := parser{names: interned{}}
			got, reusable, err := p.read(bufio.NewReaderSize(strings.NewReader(tt.text), readBuffer))
			if !errors.Is(err, tt.want) || reusable {
				t.Errorf("read() = %+v, reusable %v, error %v, want error %v", got, reusable, err, tt.want)
			}
		})
	}
}
