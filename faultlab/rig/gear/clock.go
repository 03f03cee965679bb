package gear

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"lastitem/stack"
)

// Clocks are the wall clocks of the lane's own servers; see [Equipment.Clock].
type Clocks struct {
	own  *Own
	sql  *SQL
	back map[*stack.Clock]time.Duration // clocks that were set back, and their offset before
}

// Clocks returns an error that says why servers' clocks cannot be set on this machine; nil = they can.
func (s *Servers) Clocks(ctx context.Context) error {
	_, err := s.Stack.NewClock(ctx, "probe")
	return err
}

// Jump sets the wall clocks of some of the lane's own servers forward (by > 0) or back, by several seconds at least,
// and returns when every server shows it. A clock that was set forward stays there; one that was set back is set
// forward again at the next reset of the lane. So no schedule sees a time that an earlier one has seen.
func (c *Clocks) Jump(ctx context.Context, by time.Duration, servers ...string) error {
	c.own.place.Warm = "" // keys that the warm-up made may have expired
	for _, server := range servers {
		clock, _, err := c.clockOf(server)
		if err != nil {
			return err
		}
		if by < 0 {
			c.back[clock] = clock.Offset()
		}
		if err := clock.Set(clock.Offset() + by); err != nil {
			return err
		}
	}
	for _, server := range servers {
		clock, show, err := c.clockOf(server)
		if err != nil {
			return err
		}
		shown := func() bool {
			now, err := show(ctx)
			return err == nil && now.Sub(time.Now().Add(clock.Offset())).Abs() < by.Abs()/2
		}
		if err := Until(ctx, "the clock of "+server, shown); err != nil {
			return err
		}
	}
	return nil
}

// clockOf returns the clock of one of the lane's own servers, and a function that asks the server for its time.
func (c *Clocks) clockOf(server string) (*stack.Clock, func(context.Context) (time.Time, error), error) {
	if server == Database && c.sql.clock != nil {
		return c.sql.clock, c.sql.time, nil
	}
	n, err := c.own.find(server)
	if err != nil {
		return nil, nil, err
	}
	if n.clock == nil {
		return nil, nil, fmt.Errorf("faultlab: the clock of %q in lane %d cannot be set", server, c.own.place.Number)
	}
	return n.clock, n.time, nil
}

// restore sets clocks forward again that were set back.
func (c *Clocks) restore() error {
	for clock, offset := range c.back {
		if err := clock.Set(offset); err != nil {
			return err
		}
		delete(c.back, clock)
	}
	return nil
}

// time returns the time of the node's clock.
func (n Node) time(ctx context.Context) (time.Time, error) {
	all, err := n.All(ctx, "TIME")
	if err == nil && len(all) != 2 {
		err = fmt.Errorf("faultlab: TIME = %q, want two numbers", all)
	}
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := strconv.ParseInt(all[0], 10, 64)
	return time.Unix(seconds, 0), err
}

// time returns the time of the database's clock.
func (s *SQL) time(ctx context.Context) (time.Time, error) {
	db, err := s.DB()
	if err != nil {
		return time.Time{}, err
	}
	var seconds int64
	err = db.QueryRowContext(ctx, "SELECT UNIX_TIMESTAMP()").Scan(&seconds)
	return time.Unix(seconds, 0), err
}
