package rig

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
)

// setup runs SetupSQL in the schema of a lane.
func (f *Foreign) setup(ctx context.Context, l *Lane) error {
	if !f.UsesSQL() {
		return nil
	}
	if _, err := l.SQL.access(); err != nil {
		return err
	}
	return execAll(ctx, l.SQL.db, "setup-sql", f.SetupSQL, nil)
}

// execAll runs statements in the lane's schema, their placeholders filled in. option is the flag that an error names.
func execAll(ctx context.Context, db *sql.DB, option string, statements []string, values map[string]string) error {
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, expand(s, values)); err != nil {
			return fmt.Errorf("faultlab: --%s %q: %w", option, s, err)
		}
	}
	return nil
}

// reset runs the resets of the description, and returns an error unless the ledger then shows the stock and no orders.
func (f *Foreign) reset(ctx context.Context, l *Lane, r Reset) error {
	if f.UsesRedis() && !f.KeepRedis {
		if _, err := l.redis().do(ctx, "FLUSHALL"); err != nil {
			return err
		}
	}
	if err := f.runResets(ctx, l, r); err != nil {
		return err
	}
	ledger, err := f.ledger(ctx, l)
	if err != nil {
		return err
	}
	if ledger.Stock[theirStore] != r.Stock || len(ledger.Orders) > 0 {
		return fmt.Errorf("faultlab: the reset did not reset product %[3]d: it has %[1]d units and %[2]d orders, want %[4]d and none; see --reset-sql, --reset-redis and --reset-url",
			ledger.Stock[theirStore], len(ledger.Orders), r.Product, r.Stock)
	}
	l.initial = r.Stock
	return nil
}

// runResets runs the resets of the description.
func (f *Foreign) runResets(ctx context.Context, l *Lane, r Reset) error {
	values := map[string]string{"product": strconv.FormatInt(r.Product, 10), "stock": strconv.FormatInt(r.Stock, 10)}
	if err := execAll(ctx, l.SQL.db, "reset-sql", f.ResetSQL, values); err != nil {
		return err
	}
	for _, text := range f.ResetRedis {
		if _, err := redisCommand(ctx, l, "reset-redis", text, values); err != nil {
			return err
		}
	}
	for _, text := range f.ResetURL {
		req, err := f.toSend(l.asker(), text, values)
		if err != nil {
			return err
		}
		if _, err := send(req.WithContext(ctx)); err != nil {
			return fmt.Errorf("--reset-url: %w", err)
		}
	}
	return nil
}
