package backend

import (
	"cmp"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"
)

// Patience sets how long the clients wait for their servers; a request with less time ends earlier. The zero value of a
// field is its default.
type Patience struct {
	Dial  time.Duration // for a connection to any server; 2 s
	Redis time.Duration // for the answer to a command; 3 s
	SQL   time.Duration // for the answer to a statement of MySQL; 30 s. A wait for a row ends before it
	Etcd  time.Duration // for the answer to a request; 3 s
	// Settle is for the answer to a COMMIT; 10 s.
	Settle time.Duration
	HTTP   time.Duration // for an answer of Consul to begin, beyond the time for which a blocking query may wait; 15 s
}

func (p Patience) orDefault() Patience {
	p.Dial = cmp.Or(p.Dial, 2*time.Second)
	p.Redis = cmp.Or(p.Redis, 3*time.Second)
	p.SQL = cmp.Or(p.SQL, 30*time.Second)
	p.Etcd = cmp.Or(p.Etcd, 3*time.Second)
	p.Settle = cmp.Or(p.Settle, 10*time.Second)
	p.HTTP = cmp.Or(p.HTTP, 15*time.Second)
	return p
}

// link describes a pool of connections.
type link struct {
	conns    int
	name     string // the name that the connections give to the server; "" = none
	patience Patience
	packets  bool      // SQL: several statements in one packet
	slots    *reloader // of its client, if that is one of a cluster; nil = nobody else needs it
	door     *door     // hears whether the server takes the connections; nil = nobody asks
}

// own is the link of a background job: one connection, named after the job.
func (cfg Config) own(job string) link {
	return link{conns: 1, name: "lastitem-" + job, patience: cfg.Patience}
}

// OwnRedis returns a Redis client for a background job ("purge"), with one connection per server, and one more for
// pipelines if it has them. CLIENT LIST shows them as "lastitem-" plus the job. It sends nothing yet.
func (cfg Config) OwnRedis(job string) (redis.UniversalClient, error) {
	return openRedis(cfg.Redis, cfg.own(job))
}

// OwnSQL is the same for the database. MySQL shows the name as program_name among the attributes of the connection
// (performance_schema.session_connect_attrs); let statements begin with [Comment], which SHOW PROCESSLIST shows.
func (cfg Config) OwnSQL(job string) (*gorm.DB, error) { return openSQL(cfg.SQL, cfg.own(job)) }

// Comment is the comment of SQL statements of a job.
func Comment(job string) string { return "/* lastitem-" + job + " */ " }
