package engine

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"lastitem/stack"
)

// database is a server with an account that may do anything.
type database struct {
	*stack.RunningSQL
	db *sql.DB
}

// app is the account of the shop: it may make its tables, and read_only stops it, as it does not stop SUPER.
const app = "app"

// spawnSQL starts a server, of whose client [Engine.open] takes care: several may start at once.
func (e *Engine) spawnSQL(ctx context.Context, name string, conf ...string) (database, error) {
	run, err := e.servers.SpawnSQL(ctx, stack.SQLServer{Name: name, Conf: conf})
	if err != nil {
		return database{}, err
	}
	e.started(name, run.Running)
	return database{RunningSQL: run}, nil
}

// open connects to a server that was spawned.
func (e *Engine) open(run *stack.RunningSQL, dsn string) (database, error) {
	db, err := sql.Open("mysql", dsn+"?timeout=3s&readTimeout=30s")
	if err != nil {
		return database{}, err
	}
	e.clients = append(e.clients, db)
	return database{run, db}, nil
}

// do executes statements.
func (d database) do(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := d.db.ExecContext(ctx, s); err != nil {
			verb, _, _ := strings.Cut(s, " ")
			return fmt.Errorf("engine: %s on the %s: %w", verb, d.Addr, err)
		}
	}
	return nil
}

// row returns the first row of an answer, by column.
func (d database) row(ctx context.Context, query string) (map[string]string, error) {
	rows, err := d.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil || !rows.Next() {
		return nil, errors.Join(err, rows.Err())
	}
	values, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		return nil, err
	}
	row := map[string]string{}
	for i, name := range names {
		row[name] = values[i].String
	}
	return row, rows.Err()
}

// startReplicated makes the victim the primary, which clients reach by a proxy. The replica gets writes by another one.
func (e *Engine) startReplicated(ctx context.Context) error {
	servers := make([]database, 2)
	err := together(len(servers), func(i int) (err error) {
		servers[i], err = e.spawnSQL(ctx, []string{"primary", "replica"}[i], "--log-bin=bin", "--log-slave-updates",
			"--binlog-format=ROW", fmt.Sprintf("--server-id=%d", i+1), "--slave-net-timeout=5",
			"--rpl-semi-sync-master-wait-point=AFTER_SYNC", "--rpl-semi-sync-master-timeout=600000")
		return err
	})
	for i := 0; i < len(servers) && err == nil; i++ {
		servers[i], err = e.open(servers[i].RunningSQL, servers[i].URL)
	}
	if err != nil {
		return err
	}
	primary, replica := servers[0], servers[1]
	password := rand.Text()
	for _, s := range servers {
		err := s.do(ctx, "CREATE USER "+app+"@'127.0.0.1' IDENTIFIED BY '"+password+"'",
			"GRANT ALL PRIVILEGES ON lastitem.* TO "+app+"@'127.0.0.1'", "RESET MASTER")
		if err != nil {
			return err
		}
	}
	link, err := e.proxy("replication", primary.Addr, e.options.Lag)
	if err != nil {
		return err
	}
	front, err := e.proxy("primary", primary.Addr, 0)
	if err != nil {
		return err
	}
	e.links = append(e.links, link, front)
	admin, err := mysql.ParseDSN(primary.URL)
	if err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(link.Addr)
	err = replica.do(ctx, "SET GLOBAL read_only = 1", "SET GLOBAL rpl_semi_sync_slave_enabled = 1",
		fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='%s', MASTER_PASSWORD='%s', "+
			"MASTER_USE_GTID=slave_pos", host, port, admin.User, admin.Passwd), "START SLAVE")
	if err == nil && !e.options.Async {
		err = primary.do(ctx, "SET GLOBAL rpl_semi_sync_master_enabled = 1")
	}
	if err != nil {
		return err
	}
	err = until(ctx, "the replica of MariaDB", func() bool {
		at, err := replica.row(ctx, "SHOW SLAVE STATUS")
		semi, failed := primary.row(ctx, "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'")
		return err == nil && failed == nil && at["Slave_IO_Running"] == "Yes" && at["Slave_SQL_Running"] == "Yes" &&
			(e.options.Async || semi["Value"] == "1")
	})
	if err != nil {
		return err
	}
	e.SQL = app + ":" + password + "@tcp(" + front.Addr + ")/lastitem"
	e.victim = primary.Running
	e.Unit = "transactions"
	e.behind = func(ctx context.Context) (int64, error) {
		has, err := primary.row(ctx, "SELECT @@gtid_binlog_pos AS at")
		if err != nil {
			return 0, err
		}
		got, err := replica.row(ctx, "SHOW SLAVE STATUS")
		if err != nil {
			return 0, err
		}
		wrote, err := sequence(has["at"])
		received, failed := sequence(got["Gtid_IO_Pos"])
		return max(0, wrote-received), errors.Join(err, failed)
	}
	e.takeover = func(ctx context.Context) error {
		// The IO thread may wait for a server that hangs. What it has written is the relay log, which is applied first.
		if err := replica.do(ctx, "STOP SLAVE IO_THREAD"); err != nil {
			return err
		}
		err := until(ctx, "the replica to apply its relay log", func() bool {
			got, err := replica.row(ctx, "SHOW SLAVE STATUS")
			has, failed := replica.row(ctx, "SELECT @@gtid_slave_pos AS at")
			return err == nil && failed == nil && got["Slave_SQL_Running"] == "Yes" && got["Gtid_IO_Pos"] == has["at"]
		})
		if err == nil {
			err = replica.do(ctx, "STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0")
		}
		if err == nil {
			front.Turn(replica.Addr)
			front.Sever(false)
		}
		return err
	}
	e.options.Log("replicated: MariaDB, a primary and a replica; semi-synchronous: %t", !e.options.Async)
	return nil
}

// sequence is the number of the last transaction of a position such as 0-1-245; "" = none yet.
func sequence(gtid string) (int64, error) {
	if gtid == "" {
		return 0, nil
	}
	return strconv.ParseInt(gtid[strings.LastIndex(gtid, "-")+1:], 10, 64)
}
