package trace

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"lastitem/internal/stock"
	"lastitem/stack/wire"
)

// settle waits until everything that was sent during the request is answered; the mode itself may not have waited for
// all answers. If the mode sends something that its own answer does not wait for, settle waits for that too. It returns
// when all of it ended.
func (t *Tracer) settle(ctx context.Context, m stock.Mode, began, ended time.Time) (time.Time, error) {
	later := slices.Contains(m.Needs, stock.NeedRedlock)
	for {
		if later {
			ended = time.Now()
		}
		calls := t.recorder.Between(began, ended)
		open := slices.ContainsFunc(calls, func(c wire.Call) bool { return c.Answered.IsZero() })
		if !open && sentAll(calls) {
			return ended, nil
		}
		select {
		case <-ctx.Done():
			return ended, errors.New("a command of the request is not sent, or never answered")
		case <-time.After(time.Millisecond):
		}
	}
}

// sentAll says whether a mode has also sent what its answer does not wait for: once a Redlock has asked one node, the
// request to every other node and all releases. Redlock's answer comes when a majority has granted the lock and
// released it.
func sentAll(calls []wire.Call) bool {
	last := map[string]wire.Call{}
	for _, c := range calls {
		if strings.HasPrefix(c.Server, nodePrefix) && !background(c.Text) {
			last[c.Server] = c
		}
	}
	if len(last) > 0 && len(last) < redlockNodes {
		return false // a node has not been asked yet
	}
	for _, c := range last {
		if !strings.HasPrefix(c.Text, "EVAL") {
			return false // a node still has its lock
		}
	}
	return true
}
