package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lastitem/contract/api"
	"lastitem/judge"
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
			p := parser{opaque: true, names: interned{}}
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

func TestClassifyEveryCode(t *testing.T) {
	t.Parallel()
	for code, facts := range api.Codes {
		want := Reading{Outcome: judge.Declined, Kind: Refused, Code: string(code)}
		switch {
		case code == api.SoldOut:
			want.Outcome = judge.Refused
		case facts.Happened == api.NoForNow:
			want.Again = true
		case facts.Happened == api.Unknown:
			want.Outcome, want.Kind, want.Again = judge.Unknown, Failed, true
		}
		got := Classify(&Answer{Status: facts.Status, Problem: true, Code: code, Sent: true})
		testkit.Is(t, got, want, "classify(%s)", code)
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	unknown := func(code string) Reading {
		return Reading{Outcome: judge.Unknown, Kind: Failed, Code: code, Again: true}
	}
	tests := []struct {
		name   string
		answer Answer
		want   Reading
	}{
		{"ok", Answer{Status: 200, Sent: true, OrderID: "o"}, Reading{Outcome: judge.OK, Kind: Accepted, Code: "ok"}},
		{"created", Answer{Status: 201, Sent: true}, unknown("http_201")},
		{"html", Answer{Status: 502, Sent: true}, unknown("http_502")},
		{"code without problem+json", Answer{Status: 409, Sent: true, Code: api.SoldOut}, unknown("http_409")},
		{"problem under a good status", Answer{Status: 202, Problem: true, Sent: true, Code: api.SoldOut},
			unknown("http_202")},
		{"problem without a code", Answer{Status: 409, Problem: true, Sent: true}, unknown("http_409")},
		{"code nobody knows", Answer{Status: 409, Problem: true, Sent: true, Code: "odd"}, unknown("http_409")},
		{"timeout", Answer{Sent: true, Err: ErrTimeout}, unknown("timeout")},
		{"reset", Answer{Sent: true, Err: ErrReset}, unknown("reset")},
		{"half an ok", Answer{Status: 200, Sent: true, Err: ErrEOF}, unknown("eof")},
		{"unreadable ok", Answer{Status: 200, Sent: true, Err: ErrBadAnswer}, unknown("bad_answer")},
		{"not connected", Answer{Err: ErrRefused}, Reading{Outcome: judge.Declined, Kind: Failed, Code: "refused_connection",
			Again: true}},
		{"dial timed out", Answer{Err: ErrTimeout}, Reading{Outcome: judge.Declined, Kind: Failed, Code: "refused_connection",
			Again: true}},
	}
	for _, tt := range tests {
		testkit.Is(t, Classify(&tt.answer), tt.want, "%s: classify()", tt.name)
	}
}

func TestClassifyForeign(t *testing.T) {
	t.Parallel()
	for _, want := range []judge.Outcome{judge.OK, judge.Refused, judge.Declined, judge.Unknown} {
		read := ByOutcome(func(status int, body []byte) judge.Op {
			return judge.Op{Outcome: want, OrderID: fmt.Sprintf("%d %s", status, body)}
		})
		if a := (Answer{Status: 200, Sent: true, Body: []byte("x")}); read(&a).Outcome != want || a.OrderID != "200 x" {
			t.Errorf("%s = %+v, want it with the order's id", want, a)
		}
		if got := read(&Answer{Status: 200, Sent: true, Err: ErrEOF}); got.Outcome != judge.Unknown {
			t.Errorf("half a 200 = %+v, want unknown", got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "1": time.Second, "120": 2 * time.Minute, "Fri, 20 Nov 2026 12:00:00 GMT": 0, "-1": 0,
		"99999999999999999999": 0,
	} {
		testkit.Is(t, retryAfter(text), want, "retryAfter(%q)", text)
	}
}

func TestParserReads(t *testing.T) {
	t.Parallel()
	const body = "Content-Length: 18\r\n\r\n" + `{"order_id":"o-1"}`
	order := Answer{Status: 200, OrderID: "o-1"}
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
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", Answer{Status: 204}, true},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nC;x=y\r\n" + `{"order_id":` + "\r\n6\r\n" +
			`"o-1"}` + "\r\n0\r\nTrailer: t\r\n\r\n", order, true},
		{
			"no problem", "HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nContent-Length: 19\r\n\r\n" +
				`{"code":"sold_out"}`,
			Answer{Status: 409}, true,
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

func TestReadFields(t *testing.T) {
	t.Parallel()
	taken := func(id string, remaining int64) Answer {
		return Answer{Status: 200, OrderID: id, Remaining: remaining, HasRemaining: true}
	}
	for body, want := range map[string]Answer{
		`{"mode":"x","product_id":101,"quantity":1,"remaining":499,"order_id":"o-1","fence":0}`: taken("o-1",
			499),
		`{"items":[{"product_id":1,"order_id":"inner"}],"order_id":"a\u0062é","remaining":1234567890123456789}`: taken("abé",
			1234567890123456789),
		` { "remaining" : -1 , "other" : 1e3 } `:    taken("", -1),
		`{"remaining":null,"order_id":"o-1"}`:       {Status: 200, OrderID: "o-1"},
		`{"Remaining":3,"ORDER_ID":"another name"}`: {Status: 200},
		`{}`: {Status: 200},
	} {
		a := Answer{Status: 200}
		if err := readFields([]byte(body), &a); err != nil {
			t.Errorf("readFields(%s) = %v", body, err)
		} else if diff := cmp.Diff(want, a); diff != "" {
			t.Errorf("readFields(%s) (-want +got):\n%s", body, diff)
		}
	}
}

// A body that can be read in two ways, or that is no object, is a bad answer, never a guess.
func TestReadFieldsRefuses(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		``, `null`, ` null`, `[]`, `7`, `{ }x`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":tru}`, `{"order_id":"1","order_id":"2"}`,
		`{"order_id":1}`,
		`{"remaining":1.5}`, `{"remaining":1e3}`, `{"remaining":01}`, `{"remaining":"3"}`,
		`{"remaining":9223372036854775808}`,
		"{\"order_id\":\"\xff\"}", "{\"order_id\":\"a\nb\"}", `{"order_id":"\ud800"}`,
	} {
		a := Answer{Status: 200}
		if err := readFields([]byte(body), &a); !errors.Is(err, errBadAnswer) {
			t.Errorf("readFields(%q) = %v, took %+v, want %v", body, err, a, errBadAnswer)
		}
	}
}
