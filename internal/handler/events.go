package handler

import (
	"errors"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"lastitem/contract/api"
)

var errTooManyWatchers = errors.New("handler: GET /events has as many readers as it takes")

const (
	// eventsEvery is how often a watcher is sent what has finished since.
	eventsEvery = 100 * time.Millisecond
	// eventsAlive is how often a stream without news sends a sign of life.
	eventsAlive = 5 * time.Second
	// eventsPatience is how long one event may take to be written. A reader that is slower is cut off.
	eventsPatience = 2 * time.Second
)

// events serves GET /events: finished deductions with their critical sections, as server-sent events with an
// [api.Events] each, until the client leaves or the replica drains. It is there only with Options.Events, and wants the
// admin token.
func (h *Handler) events(c *gin.Context) outcome {
	if err := h.admin.authorize(c.Request); err != nil {
		return outcome{code: h.fail(c, err)}
	}
	w := h.tap.watch()
	if w == nil {
		return outcome{code: h.fail(c, errTooManyWatchers)}
	}
	defer h.tap.leave(w)
	// The deadline for reading the request would end the stream: the server reads on to notice that the client leaves.
	_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Time{})
	header := c.Writer.Header()
	header["Content-Type"] = []string{"text/event-stream"}
	header["Cache-Control"] = []string{"no-store"}
	header["X-Accel-Buffering"] = []string{"no"} // nginx would collect the events otherwise
	c.Status(http.StatusOK)
	if err := (stream{h, c}).run(w); err != nil {
		h.metrics.cutOff.Inc()
	}
	return outcome{}
}

// stream is the answer to one reader of events.
type stream struct {
	*Handler
	c *gin.Context
}

// run writes until the client leaves, which is no error, or does not take an event in time, which is one.
func (s stream) run(w *watcher) error {
	gone, tick := s.c.Request.Context().Done(), time.NewTicker(eventsEvery)
	defer tick.Stop()
	said := time.Now()
	err := s.say([]byte(": lastitem\n\n"))
	for err == nil {
		select {
		case <-gone:
			return nil
		case now := <-tick.C:
			if s.draining.Load() {
				return nil // the connection would hold up the end
			}
			e, ok := w.take()
			switch {
			case ok:
				s.metrics.leftOut.Add(float64(e.LeftOut))
				e.Replica = s.Replica
				err, said = s.sayEvents(e), now
			case now.Sub(said) > eventsAlive:
				err, said = s.say([]byte(": alive\n\n")), now
			}
		}
	}
	if s.c.Request.Context().Err() != nil {
		return nil
	}
	return err
}

// sayEvents writes one event.
func (s stream) sayEvents(e api.Events) error {
	body, err := encode(e)
	if err != nil {
		return err
	}
	text := make([]byte, 0, len(body)+8)
	text = append(text, "data: "...)
	text = append(text, body...) // ends with a line feed, and has no other
	return s.say(append(text, '\n'))
}

func (s stream) say(text []byte) error {
	// Connections have deadlines; the recorders of tests do not.
	_ = http.NewResponseController(s.c.Writer).SetWriteDeadline(time.Now().Add(eventsPatience))
	if _, err := s.c.Writer.Write(text); err != nil {
		return err
	}
	s.c.Writer.Flush()
	return nil
}
