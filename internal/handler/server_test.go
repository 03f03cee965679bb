package handler

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
	"lastitem/internal/handler/input"
	"lastitem/internal/shop"
	"lastitem/internal/stock"
	"lastitem/testkit"
)

// These tests need a real server: what they are about happens between it and the handler.

func serve(t *testing.T, shop Shop) *httptest.Server {
	t.Helper()
	s := testkit.Serve(t, newHandler(t, shop))
	return s
}

// raw sends bytes and returns the first response.
func raw(t *testing.T, s *httptest.Server, request string) (*http.Response, string) {
	t.Helper()
	c := testkit.Dial(t, s.Listener.Addr().String())
	testkit.Must(t, c.SetDeadline(time.Now().Add(testkit.Most)))
	_, err := io.WriteString(c, request)
	testkit.Must(t, err)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	testkit.Must(t, err)
	body, err := io.ReadAll(res.Body)
	testkit.Must(t, err)
	return res, string(body)
}

// A client that asks before it sends a body that is too long gets its refusal, not "100 Continue".
func TestHugeBodyAsksFirst(t *testing.T) {
	t.Parallel()
	res, body := raw(t, serve(t, &fakeShop{}), "POST /deduct_stock/lua-lock HTTP/1.1\r\nHost: localhost\r\n"+
		"Content-Type: application/json\r\n"+
		"Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n")
	if res.StatusCode != http.StatusRequestEntityTooLarge || problem(t, answer{body: body}).Code != api.BodyTooLarge ||
		!res.Close {
		t.Errorf("status %d %s, Connection: close %t, want 413 and the end", res.StatusCode, body, res.Close)
	}
}

func TestHugeBody(t *testing.T) {
	t.Parallel()
	s := serve(t, &fakeShop{})
	huge := strings.Repeat(" ", 16<<20)
	for name, body := range map[string]io.Reader{
		"known length":   strings.NewReader(huge),
		"unknown length": io.MultiReader(strings.NewReader(huge)),
	} {
		res, err := s.Client().Post(s.URL+"/deduct_stock", jsonType, body)
		testkit.Mustf(t, err, "%s", name)
		answered, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if problem(t, answer{body: string(answered)}).Code != api.BodyTooLarge ||
			res.StatusCode != http.StatusRequestEntityTooLarge || !res.Close {
			t.Errorf("%s: %d, connection closed %t, %s", name, res.StatusCode, res.Close, answered)
		}
	}
	res, err := s.Client().Post(s.URL+"/deduct_stock", jsonType,
		strings.NewReader("{}"+strings.Repeat(" ", input.MaxBody-2)))
	testkit.Must(t, err)
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("the largest body = %d", res.StatusCode)
	}
}

// slowly is a listener whose connections take few bytes of an answer before their client reads. They count the time
// limits of their answers, and do not keep them: on a busy machine the last client comes when the first one's time is
// over.
type slowly struct {
	net.Listener
	limited *atomic.Int64
}

func (l slowly) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		err = tcp.SetWriteBuffer(4 << 10)
	}
	return unlimited{c, l.limited}, err
}

type unlimited struct {
	net.Conn
	limited *atomic.Int64
}

func (c unlimited) SetWriteDeadline(at time.Time) error {
	if left := time.Until(at); left > 0 && left <= readerPatience {
		c.limited.Add(1)
	}
	return nil
}

// So many clients may read a large answer as slowly as they like; the next is told to come again, until one of them has
// ended. Small answers, and large ones about something that was done, are given all the same.
func TestSlowReadersAreBounded(t *testing.T) {
	t.Parallel()
	segments := make([]int64, 4*patientBody)
	s := httptest.NewUnstartedServer(newHandler(t, &fakeShop{
		page: func(shop.Page) (shop.Ledger, error) {
			l, _ := soldOnce(101)
			facts := l.Facts[stock.SQL]
			facts.Orders = slices.Repeat(facts.Orders, 1500)
			l.Facts[stock.SQL] = facts
			return l, nil
		},
		product: func(int64) (shop.Product, error) {
			return shop.Product{Stock: map[stock.Store]int64{stock.Redis: 1}, Segments: segments}, nil
		},
	}))
	var limited atomic.Int64
	s.Listener = slowly{s.Listener, &limited}
	s.Start()
	t.Cleanup(s.Close)
	slow := make([]net.Conn, maxLarge)
	for i := range slow {
		c := testkit.Dial(t, s.Listener.Addr().String())
		testkit.Must(t, c.(*net.TCPConn).SetReadBuffer(4<<10))
		_, err := io.WriteString(c, "GET /products/101/orders HTTP/1.1\r\nHost: x\r\n\r\n")
		testkit.Must(t, err)
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil { // the answer has begun
			t.Fatal(err)
		}
		slow[i] = c
	}
	if n := limited.Load(); n != maxLarge {
		t.Errorf("%d of %d large answers have a time limit", n, maxLarge)
	}
	status := func(method, path, header string) (int, string) {
		res, body := raw(t, s, method+" "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+header+"\r\n")
		return res.StatusCode, body
	}
	for _, path := range []string{"/products/101/orders", "/modes"} {
		if got, body := status("GET", path, ""); got != http.StatusTooManyRequests ||
			problem(t, answer{body: body}).Code != api.RateLimited {
			t.Errorf("GET %s beyond the bound = %d, %.200s", path, got, body)
		}
	}
	if got, body := status("GET", "/healthz", ""); got != http.StatusOK {
		t.Errorf("GET /healthz = %d %s", got, body)
	}
	set := "Authorization: Bearer " + adminToken + "\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n" +
		"{\"stock\":1}"
	if got, body := status("PUT", "/products/101/stock", set); got != http.StatusOK || len(body) <= patientBody {
		t.Errorf("PUT stock = %d, %d bytes, want it answered in any case", got, len(body))
	}
	_ = slow[0].Close()
	testkit.Until(t, "a place is free", func() bool {
		got, _ := status("GET", "/modes", "")
		return got == http.StatusOK
	})
}

func TestHeadIsGetWithoutABody(t *testing.T) {
	t.Parallel()
	s := serve(t, &fakeShop{})
	for _, path := range []string{"/modes", "/modes/mutex/", "/products/101", "/healthz", "/"} {
		get, err := s.Client().Get(s.URL + path)
		testkit.Must(t, err)
		get.Body.Close()
		head, err := s.Client().Head(s.URL + path)
		testkit.Must(t, err)
		body, _ := io.ReadAll(head.Body)
		head.Body.Close()
		if head.StatusCode != get.StatusCode || len(body) > 0 ||
			head.Header.Get("Content-Type") != get.Header.Get("Content-Type") ||
			head.Header.Get(api.HeaderReplica) != "2" {
			t.Errorf("HEAD %s = %v with %q, GET = %v", path, head, body, get)
		}
	}
}

// A key is bytes, as they arrive.
func TestKeyOnTheWire(t *testing.T) {
	t.Parallel()
	keys := make(chan string, 1)
	s := serve(t, &fakeShop{deduct: func(_ context.Context, _ string, r stock.Request) (stock.Receipt, error) {
		keys <- string(r.Key)
		return stock.Receipt{}, nil
	}})
	send := func(headers string) (*http.Response, string) {
		return raw(t, s, "POST /deduct_stock HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+headers+"\r\n")
	}
	for _, key := range []string{"k", `"quoted"`, "a, b", "\xff\x80 \"é\"", strings.Repeat("k", 255)} {
		if res, body := send("Idempotency-Key: " + key + "\r\n"); res.StatusCode != http.StatusOK {
			t.Errorf("%q = %d %s", key, res.StatusCode, body)
		} else if got := <-keys; got != key {
			t.Errorf("key %q arrived as %q", key, got)
		}
	}
	for header, why := range map[string]string{
		"Idempotency-Key: a\r\nIdempotency-Key: a\r\n": "given twice",
		"Idempotency-Key: a\r\nidempotency-key: b\r\n": "given twice",
		"Idempotency-Key:\r\n":                         "is empty", "Idempotency-Key:   \t \r\n": "is empty",
		"Idempotency-Key: " + strings.Repeat("\xff", 256) + "\r\n": "longer than 255 bytes",
	} {
		res, body := send(header)
		if p := problem(t, answer{body: body}); res.StatusCode != http.StatusBadRequest || p.Field != api.HeaderKey ||
			!strings.Contains(p.Detail, why) || len(keys) > 0 {
			t.Errorf("%q = %d %s", header, res.StatusCode, body)
		}
	}
}

func TestStrangeTargets(t *testing.T) {
	t.Parallel()
	s := serve(t, &fakeShop{})
	for target, want := range map[string]int{
		"POST http://elsewhere/deduct_stock": 200,
		"POST /deduct_stock?":                200,
		"GET /%2e%2e/modes":                  404,
		"GET /modes/../modes":                404,
		"POST *":                             404,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":   505, // what follows is not read
		"CONNECT shop:80":                    405, // what is served there, /, is served to GET
	} {
		res, body := raw(t, s, fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", target))
		if res.StatusCode != want || res.Header.Get(api.HeaderReplica) != "2" {
			t.Errorf("%s = %d %q, want %d", target, res.StatusCode, body, want)
		}
	}
}

func TestPanicAfterTheAnswerBeganCutsIt(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeShop{})
	h.engine.GET("/half", h.run("/half", func(c *gin.Context) outcome {
		write(c, http.StatusOK, typeText, []byte(strings.Repeat("half ", 10_000)))
		panic("boom")
	}))
	s := testkit.Serve(t, h)
	res, err := s.Client().Get(s.URL + "/half")
	if err == nil {
		_, err = io.ReadAll(res.Body)
		res.Body.Close()
	}
	if err == nil {
		t.Error("half an answer looks like a whole one")
	}
}

func TestClientThatLeavesEndsTheDeduction(t *testing.T) {
	t.Parallel()
	started, ended := make(chan struct{}), make(chan struct{})
	s := serve(t, &fakeShop{deduct: func(ctx context.Context, _ string, _ stock.Request) (stock.Receipt, error) {
		close(started)
		<-ctx.Done()
		close(ended)
		return stock.Receipt{}, fmt.Errorf("%w: %w", stock.ErrLockBusy, ctx.Err())
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/deduct_stock", nil)
	testkit.Must(t, err)
	if res, err := s.Client().Do(req); err == nil {
		res.Body.Close()
		t.Error("answered")
	}
	select {
	case <-ended:
	case <-time.After(testkit.Most):
		t.Error("the deduction goes on")
	}
}
