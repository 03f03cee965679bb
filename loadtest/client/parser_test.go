package client

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/api"
)

func TestParserReads(t *testing.T) {
	t.Parallel()
	const body = "Content-Length: 18\r\n\r\n" + `{"order_id":"o-1"}`
	order := Answer{Status: 200, OrderID: "o-1"}
	tests := []struct {
		name, text string
		want       Answer
		reusable   bool
	}{
		{"plain", "HTTP/1.1 200 OK\r\n" + body, order, true},
		{"no reason", "HTTP/1.1 200\r\n" + body, order, true},
		{"bare newlines", "HTTP/1.1 200 OK\nContent-Length: 18\n\n" + `{"order_id":"o-1"}`, order, true},
		{"lower case", "HTTP/1.1 200 OK\r\ncontent-length:18\r\n\r\n" + `{"order_id":"o-1"}`, order, true},
		{"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n" + body, order, true},
		{"close", "HTTP/1.1 200 OK\r\nConnection: close\r\n" + body, order, false},
		{"close among others", "HTTP/1.1 200 OK\r\nConnection: foo, Close\r\n" + body, order, false},
		{"1.0", "HTTP/1.0 200 OK\r\n" + body, order, false},
		{"1.0 kept", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n" + body, order, true},
		{"until the end", "HTTP/1.1 200 OK\r\n\r\n" + `{"order_id":"o-1"}`, order, false},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", Answer{Status: 204}, true},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nC;x=y\r\n" + `{"order_id":` + "\r\n6\r\n" + `"o-1"}` + "\r\n0\r\nTrailer: t\r\n\r\n", order, true},
		{
			"headers", "HTTP/1.1 200 OK\r\nX-Replica: r3\r\nIdempotent-Replayed: true\r\nRetry-After: 7\r\n" + body,
			Answer{Status: 200, OrderID: "o-1", Replica: "r3", Replayed: true, RetryAfter: 7e9}, true,
		},
		{
			"problem", "HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json; charset=utf-8\r\nContent-Length: 19\r\n\r\n" + `{"code":"sold_out"}`,
			Answer{Status: 409, Problem: true, Code: api.SoldOut}, true,
		},
		{
			"no problem", "HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nContent-Length: 19\r\n\r\n" + `{"code":"sold_out"}`,
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
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("read() (-want +got):\n%s", diff)
			}
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

// The scan agrees with encoding/json wherever it does not give up.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{"mode":"x","product_id":101,"quantity":1,"remaining":499,"order_id":"o-1","fence":0}`,
		`{"remaining":-1,"code":"sold_out"}`, `{"remaining":1e3}`, `{"remaining":01}`, `{"remaining":-}`, `{"remaining":null}`,
		`{"order_id":"a\u0062"}`, `{"order_id":"é"}`, `{"order_id":1}`, `{"items":[{"order_id":"inner"}]}`, `{}`, `{ }x`, `[]`, `{"a":1,}`,
		`{"a":tru}`, `{"a":true,"b":false,"c":null}`, `{"a" : "b" , "remaining" : 7 }`, `{"remaining":123456789012345678}`,
		`{"remaining":1234567890123456789}`, `{"order_id":"1","order_id":"2"}`, `{"a":-0}`, `{"a":0}`, `{"a"}`, `{,}`, `{"a":"b"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var a Answer
		s := scanner{b: body}
		if !s.object(&a, interned{}) {
			return
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			t.Fatalf("object(%q) = true, but %v", body, err)
		}
		var want Answer
		if raw, ok := fields["remaining"]; ok {
			want.HasRemaining = json.Unmarshal(raw, &want.Remaining) == nil
		}
		if raw, ok := fields["order_id"]; ok && json.Unmarshal(raw, &want.OrderID) != nil {
			t.Fatalf("object(%q) took an order_id that is no string", body)
		}
		if raw, ok := fields["code"]; ok && json.Unmarshal(raw, &want.Code) != nil {
			t.Fatalf("object(%q) took a code that is no string", body)
		}
		if diff := cmp.Diff(want, a); diff != "" {
			t.Errorf("object(%q) (-want +got):\n%s", body, diff)
		}
	})
}

// readFields reads a body that the scanner gives up on.
func TestReadFieldsFallsBack(t *testing.T) {
	t.Parallel()
	body := `{"items":[{"product_id":1,"quantity":2}],"order_id":"a\u0062é","remaining":1234567890123456789}`
	a := Answer{Status: 200}
	if err := readFields([]byte(body), &a, interned{}); err != nil {
		t.Fatal(err)
	}
	want := Answer{Status: 200, OrderID: "abé", Remaining: 1234567890123456789, HasRemaining: true}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("readFields() (-want +got):\n%s", diff)
	}
	if s := (scanner{b: []byte(body)}); s.object(&a, interned{}) {
		t.Error("object() = true for a body that it should leave to encoding/json")
	}
}

func TestScanTakesTheContractsBodies(t *testing.T) {
	t.Parallel()
	left := int64(3)
	for _, body := range []any{
		api.Deduction{Mode: "lua-lock", ProductID: 101, Quantity: 2, Remaining: &left, OrderID: "o-1", Fence: 9},
		api.NewProblem(api.SoldOut, "product 101 has 0 left", "/deduct_stock/x"),
		api.NewProblem(api.LockBusy, "waited 3s", "/deduct_stock/x"),
	} {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		s := scanner{b: text}
		if !s.object(&Answer{}, interned{}) {
			t.Errorf("object(%s) = false: every answer would take the slow way", text)
		}
	}
}
