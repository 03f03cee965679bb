package follow

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/contract/api"
	"lastitem/testkit"
)

// Each ticket is asked for until it has ended: one that waits, one that the service does not know, one whose answer is
// lost once, and a replay, which is no second ticket. One that never ends is given up after the patience.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]int{}
		ask := func(_ context.Context, id string, wait time.Duration) (api.Ticket, error) {
			asked[id]++
			switch end := (api.Ticket{TicketID: id, State: "sold", OrderID: id[2:]}); {
			case id == "7-slow" && asked[id] < 3, id == "7-never":
				time.Sleep(wait)
				return api.Ticket{TicketID: id, State: api.TicketQueued}, nil
			case id == "7-cut" && asked[id] == 1:
				return api.Ticket{}, errors.New("reset")
			case id == "7-gone":
				return api.Ticket{TicketID: id}, nil
			default:
				return end, nil
			}
		}
		began, completed := time.Now(), 0
		now := func() int64 { return int64(time.Since(began)) }
		f := New(1, ask, now, func(int64) { completed++ })
		for _, id := range []string{"7-slow", "7-cut", "7-slow", "7-gone", "7-never"} {
			f.Add(id, 7, now())
		}
		got := f.Stop(9 * time.Second) // in the middle of a call
		testkit.Same(t, got.Ends, map[string]int{"sold": 2, "": 1, api.TicketQueued: 1}, "ends")
		testkit.Is(t, got.Won, 4, "won")
		testkit.Is(t, got.InFlight, 4, "in flight at most")
		testkit.Is(t, time.Duration(slices.Max(got.Ages)).Round(time.Second), 4*time.Second, "the longest age")
		testkit.Is(t, len(got.Told[7]), 3+1+1+5, "answers; of the last, one in each two of more than nine seconds")
		testkit.Is(t, completed, 3, "ends that were told")
	})
}
