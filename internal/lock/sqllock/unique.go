// Package sqllock has the locks of a database: a row under a unique index ([Unique]), the same with an owner, an expiry
// and renewal ([LeaseRow]), and a row that stays locked as long as a transaction lasts ([ForUpdate]).
package sqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"

	"lastitem/internal/lock"
	"lastitem/internal/step"
)

// Unique is the database lock of every write-up: INSERT a row under a unique index, work, DELETE it. The row names its
// owner, so that no client deletes another's row.
//
// What breaks it: its holder dies. There is no expiry, so the lock stays held until somebody deletes the row by hand.
// [LeaseRow] repairs this. Do not use both with the same key, because LeaseRow keeps its row.
type Unique struct {
	t     table
	steps *step.Stream
}

// NewUnique returns the lock in the table record_lock of db, which is MySQL (or what speaks its protocol) or SQLite.
// Keys are at most 255 bytes long.
func NewUnique(db *gorm.DB, steps *step.Stream) (*Unique, error) {
	t, err := newTable(db)
	return &Unique{t, steps}, err
}

// sqlRetry is the longest sleep between two tries, or two looks; each is random, so that losers do not retry at the
// same time.
const sqlRetry = 50 * time.Millisecond

// Acquire tries to insert the row, sleeping 1 to 50 ms between tries.
func (l *Unique) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	ctx = lock.BeginWait(ctx)
	if err := lock.RefuseLease(ctx, "sql-unique"); err != nil {
		return nil, err
	}
	l.steps.At(ctx, step.Waiting, key)
	owner := lock.NewOwner()
	for {
		ok, err := l.try(ctx, key, owner)
		if err != nil {
			return nil, err
		}
		if ok {
			l.steps.At(ctx, step.Locked, key)
			return &uniqueLease{l: l, key: key, owner: owner, ctx: ctx}, nil
		}
		if err := lock.Pause(ctx, time.Millisecond+rand.N(sqlRetry), nil); err != nil {
			return nil, err
		}
	}
}

// try sends one INSERT, which does not end with ctx, because the server might go on with it. If its answer is lost, or
// the caller has left, the row is deleted again; if that fails too, the row stays: this lock has no remedy for that.
func (l *Unique) try(ctx context.Context, key, owner string) (bool, error) {
	whole, cancel := lock.Detached(ctx)
	defer cancel()
	_, err := l.t.exec(whole, "insert", []byte(key), []byte(owner))
	switch {
	case err == nil && ctx.Err() == nil:
		return true, nil
	case sqlDuplicate(err):
		return false, nil
	}
	back, cancel := lock.Detached(ctx)
	defer cancel()
	_, _ = l.t.exec(back, "delete", []byte(key), []byte(owner))
	if lock.Ended(ctx) {
		return false, lock.GaveUp(ctx)
	}
	return false, fmt.Errorf("%w: sql-unique: %w", lock.ErrUnavailable, err)
}

type uniqueLease struct {
	l          *Unique
	key, owner string
	ctx        context.Context
	done       lock.ReleaseOnce
	sent       bool // a release was sent whose answer was lost
}

// Context never ends early: this lock has no expiry, and would not notice a loss.
func (u *uniqueLease) Context() context.Context { return u.ctx }

// Fence is 0: this lock issues no fencing token.
func (u *uniqueLease) Fence() uint64 { return 0 }

// Release deletes the row if it is still ours. ErrLost when it is not.
func (u *uniqueLease) Release(ctx context.Context) error {
	return u.done.Do(func() error {
		u.l.steps.At(ctx, step.Releasing, u.key)
		ctx, cancel := lock.Detached(ctx)
		defer cancel()
		n, err := u.l.t.exec(ctx, "delete", []byte(u.key), []byte(u.owner))
		if err != nil {
			u.sent = true
			return fmt.Errorf("lock: sql-unique: release unknown: %w", err)
		}
		u.l.steps.At(ctx, step.Released, u.key)
		if n == 0 && !u.sent { // after a lost answer, our own release may have removed it
			return lock.ErrLost
		}
		return nil
	})
}

// LeaseRow repairs [Unique]: a row with an owner, an expiry by the database's clock, renewal every third of the TTL,
// takeover after expiry, and a fence that the takeover raises in the same statement. The row of each key stays, because
// the fence must not start again.
//
// What breaks it: a process that stops as a whole for longer than the TTL, and a database whose clock jumps. A rival
// enters, and the first holder finishes its write, unless a fence that is checked at the data refuses it.
type LeaseRow struct {
	t     table
	ttl   time.Duration
	steps *step.Stream
}

// NewLeaseRow returns the lock in the table record_lock of db, which is MySQL (or what speaks its protocol) or SQLite.
// Keys are at most 255 bytes long.
//
// The fence of a key goes back if its row is deleted, or if the database comes back with older data.
func NewLeaseRow(db *gorm.DB, ttl time.Duration, steps *step.Stream) (*LeaseRow, error) {
	t, err := newTable(db)
	return &LeaseRow{t, ttl, steps}, err
}

// Acquire takes the row, or looks at it every 1 to 50 ms until it is free or has expired and then tries again. Looking
// locks nothing, so the holder's own statements do not wait for the losers'.
func (l *LeaseRow) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	ctx = lock.BeginWait(ctx)
	if err := lock.RefuseLease(ctx, "sql-lease"); err != nil {
		return nil, err
	}
	l.steps.At(ctx, step.Waiting, key)
	owner := lock.NewOwner()
	for {
		sent := time.Now()
		got, over, err := lock.Send(ctx, func(ctx context.Context) (sqlHold, error) { return l.try(ctx, key, owner) })
		if err == nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		late := got.ours && lock.TooLate(sent, l.ttl)
		if err != nil || late {
			l.takeBack(ctx, over, key, owner)
			owner = lock.NewOwner() // the release may still be on its way: it must not free the next hold
		}
		switch {
		case err != nil && lock.Ended(ctx):
			return nil, lock.GaveUp(ctx)
		case err != nil:
			return nil, fmt.Errorf("%w: sql-lease: %w", lock.ErrUnavailable, err)
		case got.ours && !late:
			l.steps.At(ctx, step.Locked, key)
			return l.hold(ctx, sent, key, owner, got.fence), nil
		}
		if err := l.wait(ctx, key); err != nil {
			return nil, err
		}
	}
}

// try sends the takeover and reads the row. The owner in the row decides whether the lock is ours, and not the number
// of affected rows, because an earlier answer may have been lost.
func (l *LeaseRow) try(ctx context.Context, key, owner string) (sqlHold, error) {
	if _, err := l.t.exec(ctx, "take", []byte(owner), l.ttl.Microseconds(), []byte(key)); err != nil {
		return sqlHold{}, err
	}
	r, err := l.look(ctx, key)
	if errors.Is(err, sql.ErrNoRows) { // the key's first use; the next try takes the row
		if _, err = l.t.exec(ctx, "make", []byte(key)); err == nil || sqlDuplicate(err) {
			return l.try(ctx, key, owner)
		}
	}
	return sqlHold{r.fence, err == nil && r.owner == owner}, err
}

// sqlHold is the result of a try.
type sqlHold struct {
	fence uint64
	ours  bool
}

// sqlRow is the row as a look sees it.
type sqlRow struct {
	owner string
	fence uint64
	left  sql.NullInt64 // microseconds; NULL = no expiry
}

func (l *LeaseRow) look(ctx context.Context, key string) (r sqlRow, err error) {
	ctx, cancel := l.t.bounded(ctx)
	defer cancel()
	err = l.t.pool.QueryRowContext(ctx, l.t.statements["look"], []byte(key)).Scan(&r.owner, &r.fence, &r.left)
	return r, err
}

// wait returns when the row looks free.
func (l *LeaseRow) wait(ctx context.Context, key string) error {
	for {
		if err := lock.Pause(ctx, time.Millisecond+rand.N(sqlRetry), nil); err != nil {
			return err
		}
		r, err := l.look(ctx, key)
		switch {
		case lock.Ended(ctx):
			return lock.GaveUp(ctx)
		case errors.Is(err, sql.ErrNoRows):
			return nil // deleted by hand; the next try makes it again
		case err != nil:
			return fmt.Errorf("%w: sql-lease: %w", lock.ErrUnavailable, err)
		case r.left.Valid && r.left.Int64 <= 0:
			return nil
		}
	}
}

// takeBack undoes a try that may have been granted. It waits for the try's statements, which it must not overtake. If
// it fails, the row expires.
func (l *LeaseRow) takeBack(ctx context.Context, over <-chan struct{}, key, owner string) {
	back, cancel := lock.Detached(ctx)
	defer cancel()
	if lock.Await(back, over) == nil {
		_, _ = l.t.exec(back, "release", []byte(key), []byte(owner))
	}
}

// hold makes the lease of a row that was taken by a statement sent at sent, and renews it.
func (l *LeaseRow) hold(ctx context.Context, sent time.Time, name, owner string, fence uint64) lock.Lease {
	key := []byte(name)
	own := func(n int64, err error) error {
		if err == nil && n == 0 {
			err = lock.ErrLost
		}
		return err
	}
	s := (&lock.Session{Renew: func(ctx context.Context) error {
		return own(l.t.exec(ctx, "renew", l.ttl.Microseconds(), key, []byte(owner)))
	}}).Start(sent, l.ttl)
	hold := &lock.SessionLease{Session: s, Kind: "sql-lease", Key: name, Num: fence, Steps: l.steps}
	hold.Free = func(ctx context.Context) error {
		s.Stop() // first stop the renewal, then release: the time-out begins after the renewal in flight
		ctx, cancel := lock.Detached(ctx)
		defer cancel()
		return own(l.t.exec(ctx, "release", key, []byte(owner)))
	}
	hold.Bind(ctx)
	return hold
}
