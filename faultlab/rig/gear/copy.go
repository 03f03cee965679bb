package gear

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Copy is the lane's database as it was when the copy was made: a replica that has applied nothing since. It is a
// transaction of the same server that began WITH CONSISTENT SNAPSHOT.
type Copy struct {
	then, now *session // now reads what the server has
	product   int64

	mu    sync.Mutex
	stale int // how many reads it has answered otherwise than the server would have
}

// Copy makes a copy. The caller closes it.
func (s *SQL) Copy(ctx context.Context) (*Copy, error) {
	then, err := s.session(ctx, copies...)
	if err != nil {
		return nil, err
	}
	now, err := s.session(ctx)
	if err != nil {
		then.close()
		return nil, err
	}
	return &Copy{then: then, now: now, product: s.place.Product()}, nil
}

// copies are the statements that begin a copy.
var copies = []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"}

// Lag makes the copy one of this moment.
func (c *Copy) Lag(ctx context.Context) error { return c.exec(ctx, copies...) }

// CatchUp ends the lag: the copy answers as the server does, until the next Lag.
func (c *Copy) CatchUp(ctx context.Context) error { return c.exec(ctx, "ROLLBACK") }

func (c *Copy) exec(ctx context.Context, statements ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.then.exec(ctx, statements...)
}

// Table is the count of the lane's product as the copy has it.
func (c *Copy) Table(ctx context.Context) (Table, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := Table{Name: "product_stock, replica", Columns: []string{"id", "stock"}}
	if err := c.then.limit(); err != nil {
		return t, err
	}
	rows, err := c.then.driver.(driver.QueryerContext).QueryContext(ctx, fmt.Sprintf("SELECT CAST(id AS CHAR), "+
		"CAST(stock AS CHAR) FROM product_stock WHERE id = %d", c.product), nil)
	if err != nil {
		return t, fmt.Errorf("faultlab: the copy: %w", err)
	}
	row := make([]driver.Value, len(t.Columns))
	if err := errors.Join(rows.Next(row), rows.Close()); err != nil {
		return t, fmt.Errorf("faultlab: the copy: %w", err)
	}
	t.Rows = [][]string{{fmt.Sprintf("%s", row[0]), fmt.Sprintf("%s", row[1])}}
	return t, nil
}

// Answer answers a read for which ask is that of [wire.Instead]. stale: the server would have answered otherwise.
func (c *Copy) Answer(ask func(io.ReadWriter) ([]byte, error)) (answer []byte, stale bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	then, err := c.then.asked(ask)
	if err != nil {
		return nil, false, err
	}
	now, err := c.now.asked(ask)
	if stale = !bytes.Equal(then, now); stale {
		c.stale++
	}
	return then, stale, err
}

// Stale is how many reads the copy has answered otherwise than the server would have.
func (c *Copy) Stale() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stale
}

// Close ends the copy.
func (c *Copy) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.then.close()
	c.now.close()
}

// session is a connection that a driver has logged in, and that speaks the protocol from then on.
type session struct {
	driver driver.Conn
	wire   net.Conn
}

// session logs in to the lane's schema, past the proxies, and executes statements.
func (s *SQL) session(ctx context.Context, statements ...string) (*session, error) {
	link := s.place.linkTo(Database)
	if link == nil {
		return nil, errors.New("faultlab: the lane has no database")
	}
	cfg, err := mysql.ParseDSN(link.at(link.addr, s.place.Number))
	if err != nil {
		return nil, fmt.Errorf("faultlab: %w", err)
	}
	var made session
	cfg.DialFunc = func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		c, err = new(net.Dialer).DialContext(ctx, network, addr)
		made.wire = c
		return c, err
	}
	connector, err := mysql.NewConnector(cfg)
	if err == nil {
		made.driver, err = connector.Connect(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("faultlab: %w", err)
	}
	if err := made.exec(ctx, statements...); err != nil {
		made.close()
		return nil, err
	}
	return &made, nil
}

// exec has the driver execute statements.
func (s *session) exec(ctx context.Context, statements ...string) error {
	if err := s.limit(); err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := s.driver.(driver.ExecerContext).ExecContext(ctx, statement, nil); err != nil {
			return fmt.Errorf("faultlab: %w", err)
		}
	}
	return nil
}

// copiedWithin is how long a copy may take to answer.
const copiedWithin = 10 * time.Second

func (s *session) asked(ask func(io.ReadWriter) ([]byte, error)) ([]byte, error) {
	if err := s.limit(); err != nil {
		return nil, err
	}
	return ask(s.wire)
}

func (s *session) limit() error { return s.wire.SetDeadline(time.Now().Add(copiedWithin)) }

func (s *session) close() { _ = s.driver.Close() }
