package fault

import (
	"context"
	"fmt"

	"lastitem/faultlab/rig"
)

// expire makes the holder's locks expire at their servers at once, if the schedule forces that; otherwise the schedule
// waits for the TTL. The holder's own clock does not move. So a holder that checks its clock still trusts its lock;
// after a real pause of that length it would not.
func (p *Play) expire(ctx context.Context) error {
	if !p.Forced {
		return nil
	}
	n, err := p.Lane.Expire(ctx, p.Lane.A.Wires, services(p.Mode)...)
	if err == nil {
		p.Note(p.Lane.A, rig.Struck, fmt.Sprintf("the locks expire at once (keys and sessions: %d)", n))
	}
	return err
}
