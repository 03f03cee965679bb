package fault

import (
	"context"
	"fmt"

	"lastitem/faultlab/rig"
)

// expire makes the holder's locks expire at their servers at once where the schedule forces that; otherwise the schedule waits until they do. The
// holder's own clock does not move: a holder that looks at it still trusts its lock, which after a real pause of that length it would not.
func (p *Play) expire(ctx context.Context) error {
	if !p.Forced {
		return nil
	}
	n, err := p.Lane.Expire(ctx, services(p.Mode)...)
	if err == nil {
		p.Note(p.Lane.A, rig.Struck, fmt.Sprintf("the locks expire at once (%d keys and sessions)", n))
	}
	return err
}
