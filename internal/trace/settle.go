package trace

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"lastitem/internal/localstack"
	"lastitem/internal/stock"
	"lastitem/internal/wire"
)

// settle waits for the answers to what was sent during the request: the mode itself may not have waited for all of them. Where
// it sends something that its own answer does not wait for, settle waits for that too. It returns the end of it all.
func (t *Tracer) settle(ctx context.Context, m stock.Mode, began, ended time.Time) (time.Time, error) {
	later := slices.Contains(m.Needs, stock.NeedKafka) || slices.Contains(m.Needs, stock.NeedRedlock)
	for {
		if later {
			ended = time.Now()
		}
		calls := t.recorder.Between(began, ended)
		open := slices.ContainsFunc(calls, func(c wire.Call) bool { return c.Answered.IsZero() })
		if !open && sentAll(m, calls) {
			return ended, nil
		}
		select {
		case <-ctx.Done():
			return ended, errors.New("a command of the request is not sent, or never answered")
		case <-time.After(time.Millisecond):
		}
	}
}

// sentAll says whether a mode has also sent what its answer does not wait for: the commit of an offset, and, once a Redlock has asked one
// node, the question to every other node and every release. The answer comes when a majority has granted the lock and released it.
func sentAll(m stock.Mode, calls []wire.Call) bool {
	if slices.Contains(m.Needs, stock.NeedKafka) && !slices.ContainsFunc(calls, func(c wire.Call) bool { return aside(c.Text) }) {
		return false
	}
	last := map[string]wire.Call{}
	for _, c := range calls {
		if strings.HasPrefix(c.Server, localstack.Redlock+" ") && !background(c.Text) {
			last[c.Server] = c
		}
	}
	if len(last) > 0 && len(last) < redlockNodes {
		return false // a node is still to be asked
	}
	for _, c := range last {
		if !strings.HasPrefix(c.Text, "EVAL") {
			return false // a node has its lock still
		}
	}
	return true
}

// aside names what a mode sends without waiting for it: at what moment is chance.
func aside(text string) bool { return strings.HasPrefix(text, "OffsetCommit ") }
