package plain

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// LeaseSeq is Version under a lock: contenders wait for the lock instead of working in vain, and the version in the
// UPDATE decides, so that neither a lost lock nor an absent Redis sells anything twice. The schema is that of Version,
// the lock that of Handoff.
//
// Traps: go on without the lock when Redis fails, and give its client short time-outs and MaxRetries -1, or every
// purchase waits for it. Contended is not sold out: repeat it, or say that nothing happened. A client that repeats its
// request buys twice: see Idempotent.
func LeaseSeq(ctx context.Context, db *sql.DB, c redis.UniversalClient, product, quantity int64) (err error) {
	began := false
	_ = Handoff(ctx, c, fmt.Sprintf("lock:{%d}", product), func(context.Context) error {
		began = true
		err = Version(ctx, db, product, quantity) // not under the context of the lock, whose loss does not matter
		return nil
	})
	if !began {
		err = Version(ctx, db, product, quantity)
	}
	return err
}
