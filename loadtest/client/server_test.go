package client

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
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

// patience is how long a test waits for an event that must happen.
const patience = 20 * time.Second

// wire is a server on raw connections, for behaviour that a standard HTTP server does not have.
type wire struct {
	url      *url.URL
	conns    atomic.Int64
	requests atomic.Int64
}

// newWire starts a server that reads each request whole and hands it to answer with its number on that connection, from
// 0; answer returns false to end the connection.
func newWire(t *testing.T, answer func(conn *net.TCPConn, n int, req *http.Request) bool) *wire {
	t.Helper()
	listener := testkit.Listen(t)
	w := &wire{url: &url.URL{Scheme: "http", Host: listener.Addr().String()}}
	var serving sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			w.conns.Add(1)
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			serving.Go(func() {
				defer conn.Close()
				w.serve(conn.(*net.TCPConn), answer)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return w
}

func (w *wire) serve(conn *net.TCPConn, answer func(*net.TCPConn, int, *http.Request) bool) {
	in := bufio.NewReader(conn)
	for n := 0; ; n++ {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		w.requests.Add(1)
		if !answer(conn, n, req) {
			return
		}
	}
}

// says answers every request with the same bytes.
func says(text string) func(*net.TCPConn, int, *http.Request) bool {
	return func(conn *net.TCPConn, _ int, _ *http.Request) bool {
		_, err := conn.Write([]byte(text))
		return err == nil
	}
}

// hangsUp says the text, and then closes the connection.
func hangsUp(text string) func(*net.TCPConn, int, *http.Request) bool {
	return func(conn *net.TCPConn, n int, r *http.Request) bool {
		says(text)(conn, n, r)
		return false
	}
}

// okAnswer is a 200 of our API.
const okAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Replica: r1\r\nContent-Length: 34\r\n\r\n" +
	`{"order_id":"o-1","remaining":499}`

// serve starts a standard HTTP server.
func serve(t *testing.T, h http.HandlerFunc) *url.URL {
	t.Helper()
	s := testkit.Serve(t, h)
	u, err := url.Parse(s.URL)
	testkit.Must(t, err)
	return u
}

// rawOnLoop is what engine takes for the raw engine with its calls made on its loop.
const rawOnLoop = plan.EngineRaw + " on its loop"

// placed makes the calls of a raw engine where Go runs a function.
type placed struct{ *raw }

func (p placed) Connect() (err error) {
	p.run(func() { err = p.raw.Connect() })
	return err
}

func (p placed) Do(call target.Call) (a Answer) {
	p.run(func() { a = p.raw.Do(call) })
	return a
}

// run runs f and waits for it.
func (p placed) run(f func()) {
	done := make(chan struct{})
	p.Go(func() {
		defer close(done)
		f()
	})
	<-done
}

// engine returns one engine, closed with the test.
func engine(t *testing.T, name string, u *url.URL, timeout time.Duration) Engine {
	t.Helper()
	kind, _, onLoop := strings.Cut(name, " ")
	engines, err := NewEngines(kind, Target{URL: u, Timeout: timeout, Workers: 1})
	testkit.Must(t, err)
	t.Cleanup(engines[0].Close)
	if onLoop {
		return placed{engines[0].(*raw)}
	}
	return engines[0]
}

// buy is a call like those of a run.
func buy() target.Call {
	return target.Call{Method: "POST", Path: "/deduct_stock/x", Body: []byte(`{"product_id":101}`),
		ContentType: "application/json", Key: "k-1"}
}

func orderOK(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(api.HeaderReplica, "r1")
	fmt.Fprint(w, `{"order_id":"o-1"}`)
}
