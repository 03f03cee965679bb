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

	mu    sync.Mutex
	stale int // how many reads it has answered otherwise than the server would have
}

// Copy makes a copy. The caller closes it.
func (s *SQL) Copy(ctx context.Context) (*Copy, error) {
	then, err := s.session(ctx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
		"START TRANSACTION WITH CONSISTENT SNAPSHOT")
	if err != nil {
		return nil, err
	}
	now, err := s.session(ctx)
	if err != nil {
		then.close()
		return nil, err
	}
	return &Copy{then: then, now: now}, nil
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
	for _, statement := range statements {
		if _, err := made.driver.(driver.ExecerContext).ExecContext(ctx, statement, nil); err != nil {
			made.close()
			return nil, fmt.Errorf("faultlab: %w", err)
		}
	}
	return &made, nil
}

// copiedWithin is how long a copy may take to answer.
const copiedWithin = 10 * time.Second

func (s *session) asked(ask func(io.ReadWriter) ([]byte, error)) ([]byte, error) {
	if err := s.wire.SetDeadline(time.Now().Add(copiedWithin)); err != nil {
		return nil, err
	}
	return ask(s.wire)
}

func (s *session) close() { _ = s.driver.Close() }
