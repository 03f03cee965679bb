package console

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
)

// Stepper makes a reader the scheduler of two clients on real servers, a command at a time.
type Stepper interface {
	// Lessons is the body of GET /console/api/lessons.
	Lessons() json.RawMessage
	// Play plays a schedule and returns the body of the answer: the state to which the schedule leads. Calls wait for each
	// other. errors.Is(err, fs.ErrNotExist): there is no such lesson.
	Play(ctx context.Context, lesson, moves string) (json.RawMessage, error)
	// Close ends the servers. It may be called again.
	Close() error
}

// schedule is the body of POST /console/api/step.
type schedule struct {
	Lesson string `json:"lesson"`
	Moves  string `json:"moves"`
}

var errNoSteps = errors.New("no command can be held here: the Step page needs the local stack, 'shop play'")

// lessons serves GET /console/api/lessons.
func (c *Console) lessons(w http.ResponseWriter, _ *http.Request) {
	if c.options.Stepper == nil {
		fail(w, errNoSteps)
		return
	}
	send(w, http.StatusOK, c.options.Stepper.Lessons())
}

// play serves POST /console/api/step.
func (c *Console) play(w http.ResponseWriter, r *http.Request) {
	if c.options.Stepper == nil {
		fail(w, errNoSteps)
		return
	}
	var s schedule
	if err := decode(w, r, &s); err != nil {
		fail(w, err)
		return
	}
	state, err := c.options.Stepper.Play(r.Context(), s.Lesson, s.Moves)
	if errors.Is(err, fs.ErrNotExist) {
		err = errNotFound
	}
	if err != nil {
		fail(w, err)
		return
	}
	send(w, http.StatusOK, state)
}
