package backend

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"lastitem/internal/sqlite"
	"lastitem/internal/store/redisdb"
	"lastitem/internal/store/sqldb"
)

// job names the connections of the probes.
const job = "health"

// watch probes a backend until the set is closed.
func (s *Set) watch(cfg Config, backend string, p probe) {
	if cfg.Health.Every < 0 {
		if p.close != nil {
			s.closing = append(s.closing, p.close)
		}
		return
	}
	s.healths[backend] = watch(news{log: s.log, backend: backend}, cfg.Health, p)
}

// probeRedis has each master write: one that is full, that has become a replica, or that cannot save answers PING all
// the same.
func (s *Set) probeRedis(cfg Config) error {
	c, err := cfg.OwnRedis(job)
	if err != nil {
		return err
	}
	mark := newMark(cfg.Prefix, cfg.Health)
	ask := func(ctx context.Context) error { return mark.write(ctx, c) }
	if cluster, ok := c.(*redis.ClusterClient); ok {
		s.masters = &masters{c: cluster, requests: &s.slots, mark: mark}
		s.Redis.Avoid(s.masters.down)
		ask = s.masters.ask
	}
	s.watch(cfg, "redis", probe{ask, redisdb.Answered, c.Close})
	return nil
}

// probeRedlock has all nodes write at once: one that hangs must not hide the others.
func (s *Set) probeRedlock(cfg Config, addresses []string) error {
	var nodes []redis.UniversalClient
	for _, address := range addresses {
		c, err := openRedis(strings.TrimSpace(address), cfg.own(job))
		if err != nil {
			return err
		}
		nodes = append(nodes, c)
	}
	mark := newMark(cfg.Prefix, cfg.Health)
	s.watch(cfg, "redlock", probe{
		ask: func(ctx context.Context) error { return majority(ctx, nodes, mark) },
		close: func() error {
			var errs []error
			for _, c := range nodes {
				errs = append(errs, c.Close())
			}
			return errors.Join(errs...)
		},
	})
	return nil
}

// majority is nil when most of the nodes write.
func majority(ctx context.Context, nodes []redis.UniversalClient, mark *mark) error {
	answers := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() { answers <- mark.write(ctx, n) }()
	}
	var up int
	var errs []error
	for range nodes {
		if err := <-answers; err != nil {
			errs = append(errs, err)
			continue
		}
		up++
		if up > len(nodes)/2 {
			return nil
		}
	}
	return fmt.Errorf("%d of %d nodes answer: %w", up, len(nodes), errors.Join(errs...))
}

// room is how much memory a probe of Redis asks for, more than a deduction does. Redis refuses a command by the memory
// in use, the command included: one that is almost full still takes a short command, and refuses every sale.
var room = strings.Repeat(" ", 4<<10)

// mark is the key that the probes of Redis write, PREFIXhealth:{0}. It expires. A probe that finds it writes nothing,
// which spares the append-only file and the replicas. Redis still refuses it like any other write, since it checks that
// first.
type mark struct {
	key  string
	ttl  time.Duration
	tags sync.Map // in a cluster: address -> the hash tag of a slot that it has, an int
}

func newMark(prefix string, h Health) *mark {
	return &mark{key: prefix + "health:", ttl: 10 * h.orDefault().Every}
}

func (m *mark) write(ctx context.Context, c redis.Cmdable) error { return m.writeTag(ctx, c, 0) }

func (m *mark) writeTag(ctx context.Context, c redis.Cmdable, tag int) error {
	return c.SetNX(ctx, m.key+"{"+strconv.Itoa(tag)+"}", room, m.ttl).Err()
}

// slotTries is how many hash tags are tried on a master of a cluster. Of ten masters a given one has none of so many in
// one case of a thousand, and the next probe goes on where this one stopped.
const slotTries = 64

// writeSlot writes to one master of a cluster, by the first hash tag whose slot it has. A master without slots is not
// asked.
func (m *mark) writeSlot(ctx context.Context, node *redis.Client) error {
	addr := node.Options().Addr
	found, _ := m.tags.LoadOrStore(addr, 0)
	tag, err := found.(int), error(nil)
	for range slotTries {
		if err = m.writeTag(ctx, node, tag); !redis.HasErrorPrefix(err, "MOVED") {
			break
		}
		tag++
	}
	m.tags.Store(addr, tag)
	if redis.HasErrorPrefix(err, "MOVED") {
		return nil
	}
	return err
}

// The probes of the database do what a request does, and leave nothing. An order of product 0 is refused by a table,
// or a disk, that is full (1114). MySQL takes it back with ROLLBACK, which costs no sync and goes to no replica. The
// UPDATE finds no row, waits for none, and is refused by a server that is read-only (1290) before it looks. SQLite
// writes its file at COMMIT only, so the probe commits. It does not wait for the one writer: while others write, the
// file is written. Each process has an order of its own, so that none waits for another.
func probeStatements(mysql bool) []string {
	write := []string{
		"UPDATE product_stock SET stock = stock WHERE id = 0",
		"INSERT INTO orders (id, product_id, quantity, mode, replica, created_us) " +
			"VALUES ('" + uuid.Must(uuid.NewV7()).String() + "', 0, 0, '', '', 0)",
	}
	if mysql {
		begin := []string{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION"}
		return slices.Concat(begin, write, []string{"ROLLBACK"})
	}
	begin := []string{"PRAGMA busy_timeout = 0", "BEGIN IMMEDIATE"}
	return slices.Concat(begin, write, []string{"DELETE FROM orders WHERE product_id = 0", "COMMIT"})
}

func (s *Set) probeSQL(cfg Config) error {
	db, err := cfg.OwnSQL(job)
	if err != nil {
		return err
	}
	pool, err := db.DB()
	if err != nil {
		return err
	}
	statements, comment := probeStatements(s.SQL.MySQL()), ""
	if s.SQL.MySQL() {
		comment = Comment(job)
	}
	migrated := false
	s.watch(cfg, "sql", probe{
		ask: func(ctx context.Context) error {
			// the first migration makes the table that is written below, and the last one what the modes want of it
			if !migrated {
				if err := upToDate(ctx, db); err != nil {
					return err
				}
				migrated = true
				s.warnOfGalera(ctx, pool, comment)
				s.warnOfSplitter(ctx, pool)
			}
			if err := transact(ctx, pool, comment, statements); !sqlite.Busy(err) {
				return err
			}
			return nil
		},
		refused: sqldb.Answered,
		close:   func() error { return closeSQL(db) },
	})
	return nil
}

// transact executes the statements of a probe on one connection, whose transaction does not outlive an error.
func transact(ctx context.Context, pool *sql.DB, comment string, statements []string) error {
	c, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // back to the pool
	for _, statement := range statements {
		if _, err := c.ExecContext(ctx, comment+statement); err != nil {
			// It fails where the connection has, and its transaction with it. A file of SQLite would stay locked.
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			_, _ = c.ExecContext(ending, comment+"ROLLBACK")
			cancel()
			return err
		}
	}
	return nil
}

// warnOfGalera warns if a read at a node of Galera may be older than the last commit at another one.
func (s *Set) warnOfGalera(ctx context.Context, pool *sql.DB, comment string) {
	var on, wait int
	// an error: it is none
	err := pool.QueryRowContext(ctx, comment+"SELECT @@wsrep_on, @@wsrep_sync_wait").Scan(&on, &wait)
	if err == nil && on == 1 && wait&1 == 0 {
		s.log.Warn("with two writers of Galera a lock outside the database oversells: " +
			"set wsrep_sync_wait=1 in the SQL address, or write to one node")
	}
}

// whoAnswers reads the shop's own table, as requests do, and names the server that answers: UUID_SHORT is made of its
// id and of the second in which it was started, above 24 bits that count. @@server_id would not do: some splitters keep
// what has an @ at the primary, ProxySQL ties a session to one server for it, and nodes of Galera may share an id. Nor
// would a comment in front, since the rules of a splitter may ask for a text that begins with SELECT.
const whoAnswers = "SELECT UUID_SHORT() >> 24, COUNT(*) FROM product_stock WHERE id = 0"

// asksOutside is how often a read outside a transaction is tried, since a splitter may have the primary among those
// that it lets answer.
const asksOutside = 5

// warnOfSplitter warns if another server answers outside a transaction than inside, as behind a read-write splitter.
func (s *Set) warnOfSplitter(ctx context.Context, pool *sql.DB) {
	var outside [asksOutside]uint64
	var inside uint64
	var rows int
	for i := range outside {
		if pool.QueryRowContext(ctx, whoAnswers).Scan(&outside[i], &rows) != nil {
			return // SQLite, or a server that does not tell
		}
	}
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	err = tx.QueryRowContext(ctx, whoAnswers).Scan(&inside, &rows)
	if err == nil && slices.ContainsFunc(outside[:], func(id uint64) bool { return id != inside }) {
		s.log.Warn("reads outside transactions are answered by another server: a lock oversells if that one lags behind; " +
			"let the SQL address lead to the primary, past the read-write splitter, or use modes that are exact under 'stale'")
	}
}
