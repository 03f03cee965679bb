package stock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/idempotency"
	"lastitem/internal/lock"
	"lastitem/internal/step"
	"lastitem/internal/store"
)

// Deps is what the modes are built from. A nil Redis or SQL makes the modes that need it unavailable.
type Deps struct {
	Redis *store.Redis
	SQL   *store.SQL
	// Client is for the lockers, which keep keys of their own beside the store's; Prefix is put before each of them.
	Client redis.UniversalClient
	Prefix string
	// Wakeups tells waiting lockers that a lock was released; nil = they poll.
	Wakeups *lock.Wakeups
	// Engine is the lock of handoff, segmented, lease-seq and idempotent, one per process; nil makes them unavailable. Whoever
	// made it closes it, after the last Deduct and before Client.
	Engine *lock.Engine
	// Check says why a backend cannot be used right now, nil when it can. It answers from a cache, without waiting.
	Check   func(Backend) error
	Steps   *step.Stream
	Replica string
	// LockTTL is the expiry of the other locks that have one.
	LockTTL time.Duration
	Log     *slog.Logger
}

// Shop runs the modes over one set of backends. It is safe for concurrent use.
type Shop struct {
	deps    Deps
	entries []*entry
	byName  map[string]*entry
}

type entry struct {
	mode     Mode
	deductor Deductor // nil when err is set
	err      error
}

// Status is one mode of a shop and why it cannot be used, nil when it can.
type Status struct {
	Mode Mode
	Err  error
}

// NewShop builds every mode whose needs are configured; the others stay listed with the reason.
func NewShop(deps Deps, modes []Mode) (*Shop, error) {
	if err := Validate(modes); err != nil {
		return nil, err
	}
	s := &Shop{deps: deps, byName: map[string]*entry{}}
	for _, m := range modes {
		e := &entry{mode: m}
		if e.err = configured(deps, m.Needs); e.err == nil {
			e.deductor, e.err = m.New(deps)
		}
		s.entries = append(s.entries, e)
		s.byName[m.Name] = e
	}
	return s, nil
}

func configured(deps Deps, needs []Backend) error {
	for _, b := range needs {
		switch {
		case b == NeedRedis && deps.Redis == nil:
			return errors.New("no Redis configured: set SHOP_REDIS")
		case b != NeedRedis && deps.SQL == nil:
			return errors.New("no SQL database configured: set SHOP_SQL")
		case b == NeedMySQL && !deps.SQL.MySQL():
			return errors.New("its lesson needs InnoDB: set SHOP_SQL to a MySQL or MariaDB server")
		}
	}
	return nil
}

// Modes lists every mode in teaching order.
func (s *Shop) Modes() []Status {
	all := make([]Status, 0, len(s.entries))
	for _, e := range s.entries {
		all = append(all, s.status(e))
	}
	return all
}

// Mode returns one mode by name, or ErrUnknownMode.
func (s *Shop) Mode(name string) (Status, error) {
	e, ok := s.byName[name]
	if !ok {
		return Status{}, fmt.Errorf("%w: %q", ErrUnknownMode, name)
	}
	return s.status(e), nil
}

func (s *Shop) status(e *entry) Status {
	if e.err != nil {
		return Status{e.mode, e.err}
	}
	if s.deps.Check != nil {
		for _, b := range e.mode.Needs {
			if err := s.deps.Check(b); err != nil {
				return Status{e.mode, fmt.Errorf("%s: %w", b, err)}
			}
		}
	}
	return Status{Mode: e.mode}
}

// Deduct takes units by the named mode. Its error wraps one of the sentinels of errors.go.
func (s *Shop) Deduct(ctx context.Context, mode string, req Request) (Receipt, error) {
	e, ok := s.byName[mode]
	if !ok {
		return Receipt{}, fmt.Errorf("%w: %q", ErrUnknownMode, mode)
	}
	if err := check(e.mode, &req); err != nil {
		return Receipt{}, err
	}
	if e.err != nil {
		return Receipt{}, fmt.Errorf("%w: %s: %w", ErrModeUnavailable, mode, e.err)
	}
	r, err := e.deductor.Deduct(ctx, req)
	if errors.Is(err, store.ErrConflict) {
		err = fmt.Errorf("%w: %w", ErrContended, err)
	}
	return r, err
}

// check holds a request against what its mode takes, and fills in the default store.
func check(m Mode, req *Request) error {
	switch {
	case len(req.Items) == 0:
		return &InvalidError{"items", "empty"}
	case len(req.Items) > 1 && !m.Cart:
		return &InvalidError{"items", "mode " + m.Name + " takes one product at a time"}
	case slices.ContainsFunc(req.Items, func(i Item) bool { return i.Quantity < 1 }):
		return &InvalidError{"quantity", "must be at least 1"}
	case m.KeyRequired && len(req.Key) == 0:
		return ErrKeyMissing
	case len(req.Key) > idempotency.MaxKey: // INSERT IGNORE would cut it off, and it would be another one's
		return &InvalidError{"Idempotency-Key", fmt.Sprintf("is longer than %d bytes", idempotency.MaxKey)}
	}
	if req.Store == "" && len(m.Stores) > 0 {
		req.Store = m.Stores[0]
	}
	for _, s := range m.Stores {
		if s == req.Store {
			return nil
		}
	}
	if len(m.Stores) == 0 && req.Store == "" {
		return nil
	}
	return &InvalidError{"store", fmt.Sprintf("mode %s keeps its stock in %v, not in %q", m.Name, m.Stores, req.Store)}
}
