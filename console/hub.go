package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// ringSize is how many missed events a browser can get later: half a minute of frames. A browser that has missed more
	// gets a snapshot.
	ringSize = 300
	// clientBuffer is how many events may wait for a browser. A slower browser is cut off, and reconnects with
	// Last-Event-ID.
	clientBuffer = 64
	// maxClients bounds the number of browsers.
	maxClients = 32

	heartbeat     = 2 * time.Second // a page that hears nothing for three of them has lost the console
	writePatience = 5 * time.Second
)

// event is one server-sent event.
type event struct {
	id   uint64
	kind string
	data []byte // JSON without line feeds
}

// hub hands events to the browsers. The publisher never waits for a browser.
type hub struct {
	mu      sync.Mutex
	next    uint64 // the id of the next event
	ring    []event
	clients map[chan event]bool
	cut     int64 // browsers cut off because they were slow
	closed  bool
}

// newHub returns a hub whose first id is the time in milliseconds since 1970. So it is greater than all ids of a
// console that ran before: a page that has seen these needs a snapshot.
func newHub() *hub {
	return &hub{next: uint64(time.Now().UnixMilli()), clients: map[chan event]bool{}}
}

// publish sends an event to all browsers.
func (h *hub) publish(kind string, v any) {
	data, err := json.Marshal(v)
	if err != nil { // our own types always encode
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e := event{id: h.next, kind: kind, data: data}
	h.next++
	if len(h.ring) == ringSize {
		h.ring = append(h.ring[:0:0], h.ring[ringSize/4:]...)
	}
	h.ring = append(h.ring, e)
	for c := range h.clients {
		select {
		case c <- e:
		default:
			h.cut++
			delete(h.clients, c)
			close(c)
		}
	}
}

// join adds a browser that has seen the events up to last (0 = none). missed has the events since then. If some of them
// are no longer kept, ok is false, and the browser needs a snapshot, whose id is that of the last event before it.
func (h *hub) join(last uint64) (c chan event, missed []event, snapshotID uint64, ok bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.clients) >= maxClients {
		return nil, nil, 0, false, errTooMany
	}
	c = make(chan event, clientBuffer)
	h.clients[c] = true
	snapshotID = h.next - 1
	if last == 0 || last >= h.next || len(h.ring) == 0 || last+1 < h.ring[0].id {
		return c, nil, snapshotID, last != 0 && last == h.next-1, nil
	}
	for _, e := range h.ring {
		if e.id > last {
			missed = append(missed, e)
		}
	}
	return c, missed, snapshotID, true, nil
}

func (h *hub) leave(c chan event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clients[c] {
		delete(h.clients, c)
		close(c)
	}
}

// close ends all streams, for which the server's Shutdown would wait.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.clients {
		delete(h.clients, c)
		close(c)
	}
}

// events serves GET /console/api/events.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	// A browser repeats Last-Event-ID by itself after a broken connection. The page itself, when its tab is shown again,
	// names the id in the query.
	last, _ := strconv.ParseUint(first(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("last")), 10, 64)
	c.mu.Lock() // nothing is published between the snapshot and joining
	stream, missed, id, ok, err := c.hub.join(last)
	if err != nil {
		c.mu.Unlock()
		fail(w, err)
		return
	}
	if !ok {
		data, _ := json.Marshal(c.snapshot())
		missed = []event{{id: id, kind: "snapshot", data: data}}
	}
	c.mu.Unlock()
	defer c.hub.leave(stream)
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	out := &sse{w: w, rc: http.NewResponseController(w)}
	_ = out.rc.SetReadDeadline(time.Time{})
	out.text("retry: 1000\n\n")
	for _, e := range missed {
		out.event(e)
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for out.err == nil {
		select {
		case <-r.Context().Done():
			return
		case e, open := <-stream:
			if !open {
				return
			}
			out.event(e)
		case <-beat.C:
			out.text("event: alive\ndata: {}\n\n")
		}
	}
}

// sse writes server-sent events, each within writePatience.
type sse struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	err error
}

func (s *sse) event(e event) {
	s.text(fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", e.id, e.kind, e.data))
}

func (s *sse) text(text string) {
	if s.err != nil {
		return
	}
	_ = s.rc.SetWriteDeadline(time.Now().Add(writePatience)) // a test's recorder has no deadline
	if _, s.err = s.w.Write([]byte(text)); s.err == nil {
		s.err = s.rc.Flush()
	}
}

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
