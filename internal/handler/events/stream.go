package events

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"lastitem/contract/api"
)

// ErrTooManyWatchers is the refusal of one more reader than [MaxWatchers]; nothing was sent.
var ErrTooManyWatchers = errors.New("handler: GET /events has as many readers as it takes")

const (
	// every is how often a watcher is sent what has finished since.
	every = 100 * time.Millisecond
	// alive is how often a stream without news sends a sign of life.
	alive = 5 * time.Second
	// patience is how long one event may take to be written. A reader that is slower is cut off.
	patience = 2 * time.Second
)

// Serve sends finished deductions with their critical sections, as server-sent events with an [api.Events] each, until
// the client leaves or ending is true: an open stream would hold up the end. An error other than [ErrTooManyWatchers]
// says that the client did not take an event in time.
func (t *Tap) Serve(w http.ResponseWriter, r *http.Request, ending func() bool) error {
	reader := t.watch()
	if reader == nil {
		return ErrTooManyWatchers
	}
	defer t.leave(reader)
	s := stream{t, w, http.NewResponseController(w)}
	// The deadline for reading the request would end the stream: the server reads on to notice that the client leaves.
	_ = s.conn.SetReadDeadline(time.Time{})
	header := w.Header()
	header["Content-Type"] = []string{"text/event-stream"}
	header["Cache-Control"] = []string{"no-store"}
	header["X-Accel-Buffering"] = []string{"no"} // nginx would collect the events otherwise
	w.WriteHeader(http.StatusOK)
	if err := s.run(reader, r.Context().Done(), ending); r.Context().Err() == nil {
		return err
	}
	return nil
}

// stream is the answer to one reader of events.
type stream struct {
	*Tap
	w    http.ResponseWriter
	conn *http.ResponseController
}

// run writes until the client leaves, which is no error, or does not take an event in time, which is one.
func (s stream) run(w *watcher, gone <-chan struct{}, ending func() bool) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	said := time.Now()
	err := s.say([]byte(": lastitem\n\n"))
	for err == nil {
		select {
		case <-gone:
			return nil
		case now := <-tick.C:
			if ending() {
				return nil
			}
			e, ok := w.take()
			switch {
			case ok:
				s.LeftOut(float64(e.LeftOut))
				e.Replica = s.Replica
				err, said = s.sayEvents(e), now
			case now.Sub(said) > alive:
				err, said = s.say([]byte(": alive\n\n")), now
			}
		}
	}
	return err
}

// sayEvents writes one event.
func (s stream) sayEvents(e api.Events) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	text := make([]byte, 0, len(body)+8)
	text = append(text, "data: "...)
	text = append(text, body...) // has no line feed
	return s.say(append(text, "\n\n"...))
}

func (s stream) say(text []byte) error {
	// Connections have deadlines; the recorders of tests do not.
	_ = s.conn.SetWriteDeadline(time.Now().Add(patience))
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.conn.Flush()
}
