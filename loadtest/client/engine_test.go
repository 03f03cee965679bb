package client

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lastitem/contract/api"
	"lastitem/loadtest/plan"
	"lastitem/target"
	"lastitem/testkit"
)

// eachEngine runs a test with every engine, and with raw both in the test's goroutine and on its loop.
func eachEngine(t *testing.T, test func(t *testing.T, name string)) {
	t.Helper()
	for _, name := range append([]string{rawOnLoop}, plan.EngineNames...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name)
		})
	}
}

func TestEngineSendsTheCallAndReadsTheAnswer(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, name string) {
		u := serve(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got := []string{r.Method, r.URL.String(), r.Header.Get("Content-Type"), r.Header.Get(api.HeaderKey), string(body)}
			want := []string{"POST", "/base/deduct_stock/x", "application/json", "k-1", `{"product_id":101}`}
			testkit.Same(t, got, want, "request")
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.Header().Set(api.HeaderReplica, "r2")
			w.Header().Set(api.HeaderReplayed, "true")
			fmt.Fprint(w, `{"order_id":"o-7"}`)
		})
		got := engine(t, name, u.JoinPath("base"), patience).Do(buy())
		want := Answer{Sent: true, Reply: target.Reply{Status: 200, Replica: "r2", Replayed: true,
			Body: []byte(`{"order_id":"o-7"}`)}}
		testkit.Same(t, got, want, "Do()")
	})
}

// Three calls on one connection, or on three where the server says that it closes it.
func TestEngineReadsAnswers(t *testing.T) {
	t.Parallel()
	const interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\nX-Replica: hint\r\n" +
		"Retry-After: 9\r\nIdempotent-Replayed: true\r\n\r\n"
	said := func(status int, body string) Answer {
		return Answer{Sent: true, Reply: target.Reply{Status: status, Body: []byte(body)}}
	}
	ok := said(200, `{"order_id":"o-1","remaining":499}`)
	ok.Replica = "r1"
	busy := said(503, `{"title":"Lock \"busy\"","code":"lock_busy"}`)
	busy.Problem, busy.RetryAfter = true, 2*time.Second
	redirected := said(307, "")
	redirected.Location = "/again"
	for _, tt := range []struct {
		name, text string
		want       Answer
		conns      int64
	}{
		{"interim answers first, which are none", interim + okAnswer, ok, 1},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nD\r\n{\"order_id\":\"\r\n6\r\no-9\"}\n\r\n0\r\n\r\n",
			said(200, "{\"order_id\":\"o-9\"}\n"), 1},
		{"the last of a connection", strings.Replace(okAnswer, "\r\n", "\r\nConnection: close\r\n", 1), ok, 3},
		{
			"a problem", "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 2\r\n" +
				"Content-Length: 44\r\n\r\n" +
				`{"title":"Lock \"busy\"","code":"lock_busy"}`, busy, 1,
		},
		{"a body that is no JSON", "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n" +
			"<html>", said(502, "<html>"), 1},
		{"a redirect, which it does not follow", "HTTP/1.1 307 Temporary Redirect\r\nLocation: /again\r\nContent-Length: " +
			"0\r\n\r\n", redirected, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, name string) {
				server := newWire(t, says(tt.text))
				e := engine(t, name, server.url, patience)
				for i := range 3 {
					testkit.Same(t, e.Do(buy()), tt.want, "Do() %d", i)
				}
				if c, n := server.conns.Load(), server.requests.Load(); c != tt.conns || n != 3 {
					t.Errorf("%d requests over %d connections, want 3 over %d", n, c, tt.conns)
				}
			})
		})
	}
}

// Every client sends the same for one command line: method, path, headers and body. What may not stand in a path is
// written as %XX, and a fragment is left out.
func TestClientsSendTheSame(t *testing.T) {
	t.Parallel()
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, r.Method, " ", r.RequestURI, " ", r.Host, " ", r.Header, r.TransferEncoding, " ", string(body))
	}).JoinPath("base")
	headers := []string{"host: shop.example", "x-a: 1", "X-A: 2", "user-agent: mine", "Accept: text/html", "Cookie: a=b",
		"content-length: 99"}
	for _, tt := range []struct {
		request string
		headers []string
		want    string // part of what the service reads
	}{
		{"POST /buy?product={{product}}", nil, "POST /base/buy?product=7 " + u.Host +
			" map[Content-Length:[0] User-Agent:[lastitem]] [] "},
		{`POST /buy {"n":{{quantity}}}`, headers, `shop.example map[Accept:[text/html] Content-Length:[7] ` +
			`Content-Type:[application/json] Cookie:[a=b] User-Agent:[mine] X-A:[1 2]] [] {"n":1}`},
		{"POST /\u00fc|{{product}}?q={\"a\"}#part n=1", []string{"Idempotency-Key: {{key}}"},
			"/base/%C3%BC%7C7?q=%7B%22a%22%7D "},
		{"PUT /buy", nil, "Content-Length:[0]"},
		{"GET /buy", nil, "map[User-Agent:[lastitem]]"},
		{`GET /buy {"n":1}`, headers, ` {"n":1}`},
		{"DELETE /buy", nil, "map[User-Agent:[lastitem]]"},
		{`DELETE /buy {"n":1}`, nil, ` {"n":1}`},
	} {
		d := target.Foreign{Request: tt.request, Headers: tt.headers}
		caller, err := d.Caller()
		testkit.Must(t, err)
		call := caller(target.Ask{Product: 7, Key: "k"})
		own := &http.Client{Transport: target.NewTransport(false)}
		r, err := call.Send(t.Context(), own, u.String())
		testkit.Must(t, err)
		if !strings.Contains(string(r.Body), tt.want) {
			t.Errorf("%s: the service read\n%s, want\n%s", tt.request, r.Body, tt.want)
		}
		for _, name := range plan.EngineNames {
			testkit.Is(t, string(engine(t, name, u, patience).Do(call).Body), string(r.Body), "%s of %s", tt.request, name)
		}
		own.CloseIdleConnections()
	}
}

// If the server closes the connection after it has read a request, the outcome is unknown, and the engine does not send
// again.
func TestEngineNeverSendsTwice(t *testing.T) {
	t.Parallel()
	ends := map[string]func(conn *net.TCPConn){
		"closed": func(*net.TCPConn) {},
		"reset":  func(conn *net.TCPConn) { _ = conn.SetLinger(0) },
		"half an answer": func(conn *net.TCPConn) {
			_, _ = conn.Write([]byte(okAnswer[:len(okAnswer)-5]))
		},
	}
	for end, cut := range ends {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			for _, method := range []string{"POST", "GET"} {
				for _, body := range []string{"", `{"product_id":101}`} {
					eachEngine(t, func(t *testing.T, name string) {
						server := newWire(t, func(conn *net.TCPConn, n int, _ *http.Request) bool {
							if n == 0 {
								return says(okAnswer)(conn, n, nil)
							}
							cut(conn)
							return false
						})
						e := engine(t, name, server.url, patience)
						call := buy()
						call.Method, call.Body = method, []byte(body)
						if got := e.Do(call); got.Err != "" {
							t.Fatalf("first Do() = %+v, want an answer", got)
						}
						got := e.Do(call)
						if !got.Sent || got.Err != ErrEOF && got.Err != ErrReset {
							t.Errorf("Do() = %+v, want it sent, and ended by eof or reset", got)
						}
						if n := server.requests.Load(); n != 2 {
							t.Errorf("the server saw %d requests, want 2", n)
						}
						if got := e.Do(call); !strings.Contains(string(got.Body), "o-1") {
							t.Errorf("next Do() = %+v, want it to work again", got)
						}
					})
				}
			}
		})
	}
}

func TestEngineNotConnected(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, name string) {
		u := &url.URL{Scheme: "http", Host: testkit.FreePort(t)}
		got := engine(t, name, u, patience).Do(buy())
		if got.Sent || got.Err != ErrRefused {
			t.Errorf("Do() = %+v, want nothing sent, since no connection was had", got)
		}
	})
}

// An answer that does not come, or that cannot be read, leaves the outcome unknown.
func TestEngineGivesUp(t *testing.T) {
	t.Parallel()
	stalls := map[string]string{
		"no answer": "",
		"headers":   "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n",
		"body":      "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"order_id\"",
	}
	bad := map[string]string{
		"not http":   "hello, who is there?\r\n\r\n",
		"bad chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
		"bad length": "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}",
	}
	for want, answers := range map[string]map[string]string{ErrTimeout: stalls, ErrBadAnswer: bad} {
		for what, text := range answers {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				eachEngine(t, func(t *testing.T, name string) {
					answer, within := says(text), 3*time.Second
					if want == ErrBadAnswer {
						answer, within = hangsUp(text), patience
					}
					got := engine(t, name, newWire(t, answer).url, within).Do(buy())
					if got.Err != want || !got.Sent {
						t.Errorf("Do() = %+v, want %s", got, want)
					}
				})
			})
		}
	}
}

// An engine notices that the server has closed an idle connection before it writes to it.
func TestRawNoticesAConnectionThatWasClosedAtRest(t *testing.T) {
	t.Parallel()
	for _, name := range []string{plan.EngineRaw, rawOnLoop} {
		server := newWire(t, hangsUp(okAnswer))
		e := engine(t, name, server.url, patience)
		for i := range 5 {
			if got := e.Do(buy()); got.Err != "" {
				t.Fatalf("%s: Do() %d = %+v, want an answer", name, i, got)
			}
			r, ok := e.(*raw)
			if !ok {
				r = e.(placed).raw
			}
			testkit.Until(t, "closed by the server", r.closedByServer)
			r.lastUse = r.lastUse.Add(-2 * restingFor)
		}
		if n := server.requests.Load(); n != 5 {
			t.Errorf("%s: the server saw %d requests, want 5", name, n)
		}
	}
}

// Bytes beyond an answer are not the answer to the next request.
func TestRawDropsWhatFollowsAnAnswer(t *testing.T) {
	t.Parallel()
	server := newWire(t, func(conn *net.TCPConn, n int, r *http.Request) bool {
		return says(strings.ReplaceAll(okAnswer, "o-1", "o-"+r.Header.Get(api.HeaderKey))+okAnswer)(conn, n, r)
	})
	for _, name := range []string{plan.EngineRaw, rawOnLoop} {
		e := engine(t, name, server.url, patience)
		for _, key := range []string{"2", "3", "4"} {
			call := buy()
			call.Key = key
			if got := e.Do(call); !strings.Contains(string(got.Body), "o-"+key) || got.Err != "" {
				t.Errorf("%s: Do() = %+v, want order o-%s", name, got, key)
			}
		}
	}
}

// What does not fit into one write or one read goes and comes in parts.
func TestEngineLargeBodies(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	eachEngine(t, func(t *testing.T, name string) {
		u := serve(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(50 * time.Millisecond) // the request fills the buffers of the connection, and the writer waits
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(w, `{"order_id":"%d","padding":"%s"}`, n, strings.Repeat("x", maxBody/2))
		})
		call := buy()
		call.Body = make([]byte, size)
		if got := engine(t, name, u, patience).Do(call); !strings.Contains(string(got.Body), strconv.Itoa(size)) {
			t.Errorf("Do() = %+v, want an answer of the %d bytes that arrived", got, size)
		}
	})
}

// Workers of a loop do not wait for one that waits, and a pause ends with its context.
func TestLoopGoesOn(t *testing.T) {
	t.Parallel()
	server := newWire(t, func(conn *net.TCPConn, n int, r *http.Request) bool {
		return r.Header.Get(api.HeaderKey) == "silent" || says(okAnswer)(conn, n, r)
	})
	const workers = 40
	engines, err := NewEngines(plan.EngineRaw, Target{URL: server.url, Timeout: time.Second, Workers: workers})
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var all, answered sync.WaitGroup
	all.Add(workers)
	answered.Add(workers / 2)
	var missed, rested atomic.Int64
	for i, e := range engines {
		e.Go(func() {
			defer all.Done()
			call := buy()
			if i%4 == 0 {
				call.Key = "silent"
			}
			if got := e.Do(call); (got.Err == ErrTimeout) != (i%4 == 0) {
				missed.Add(1)
			}
			if i%2 == 1 {
				answered.Done()
				if e.Rest(ctx, time.Hour) {
					rested.Add(1)
				}
			} else if !e.Rest(ctx, time.Millisecond) && ctx.Err() == nil {
				rested.Add(1)
			}
		})
	}
	answered.Wait()
	cancel()
	all.Wait()
	for _, e := range engines {
		e.Close()
	}
	if missed.Load() > 0 || rested.Load() > 0 {
		t.Errorf("%d of %d answers and %d pauses were not as they must be", missed.Load(), workers, rested.Load())
	}
}

func TestRawConnectsAhead(t *testing.T) {
	t.Parallel()
	server := newWire(t, says(okAnswer))
	e := engine(t, plan.EngineRaw, server.url, patience)
	for range 2 {
		testkit.Must(t, e.Connect())
	}
	testkit.Until(t, "one connection", func() bool { return server.conns.Load() == 1 })
	if got := e.Do(buy()); got.Err != "" || server.conns.Load() != 1 {
		t.Errorf("Do() = %+v over %d connections, want an answer over 1", got, server.conns.Load())
	}
}

func TestNewEnginesRefuses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"ftp://host", "/path", "http://"} {
		u, err := url.Parse(address)
		testkit.Must(t, err)
		if _, err := NewEngines(plan.EngineRaw, Target{URL: u, Workers: 1}); err == nil {
			t.Errorf("NewEngines(%q) = nil error, want one", address)
		}
	}
	if _, err := NewEngines("curl", Target{URL: &url.URL{Scheme: "http", Host: "h"}}); err == nil {
		t.Error("NewEngines(curl) = nil error, want one")
	}
}

func BenchmarkEngines(b *testing.B) {
	for _, name := range plan.EngineNames {
		b.Run("engine="+name, func(b *testing.B) {
			listener := testkit.Listen(b)
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"mode":"noop","product_id":101,"quantity":1,`+
					`"order_id":"0193a5c2-7c55-7b5e-9a37-4f7a52d6c0aa"}`)
			})}
			go func() { _ = server.Serve(listener) }()
			defer server.Close()
			engines, err := NewEngines(name, Target{URL: &url.URL{Scheme: "http", Host: listener.Addr().String()},
				Timeout: patience, Workers: 1})
			testkit.Must(b, err)
			defer engines[0].Close()
			call := buy()
			b.ReportAllocs()
			for b.Loop() {
				if a := engines[0].Do(call); a.Err != "" {
					b.Fatal(a.Err)
				}
			}
		})
	}
}

func TestRawSpeaksTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(orderOK))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	testkit.Must(t, err)
	e := engine(t, plan.EngineRaw, u, patience).(*raw)
	if got := e.Do(buy()); got.Sent || got.Err == "" {
		t.Errorf("Do() = %+v, want a certificate that nobody knows refused before anything is sent", got)
	}
	e.tls.RootCAs = x509.NewCertPool()
	e.tls.RootCAs.AddCert(server.Certificate())
	for range 3 {
		if got := e.Do(buy()); !strings.Contains(string(got.Body), "o-1") || got.Err != "" {
			t.Errorf("Do() = %+v, want order o-1", got)
		}
		e.lastUse = e.lastUse.Add(-2 * restingFor)
	}
}
