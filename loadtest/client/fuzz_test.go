package client

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// answers are the fuzzer's seeds: one for each framing of an answer, and some that no parser should accept.
var answers = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
	"HTTP/1.1 200\r\ncontent-length:2\r\n\r\n{}HTTP/1.1 204 X\r\n\r\n",
	"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json\r\nX-Replica: 2\r\nRetry-After: 7\r\nContent-Length: 19\r\n\r\n{\"code\":\"sold_out\"}",
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

// FuzzParser: an answer that both this parser and that of net/http accept is the same to both, body included; one that comes byte by
// byte is the same as one that comes at once; and no answer takes more memory than the limit. The seeds run in every test;
// 'go test -fuzz FuzzParser ./loadtest/client' looks for more.
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
		if (err == nil) != (slowErr == nil) || err == nil && (!cmp.Equal(got, slow) || reusable != slowReusable || !bytes.Equal(body, slowBody)) {
			t.Fatalf("at once: %+v %t %q %v\nbyte by byte: %+v %t %q %v", got, reusable, body, err, slow, slowReusable, slowBody, slowErr)
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
