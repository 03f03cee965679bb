package fault

import (
	"context"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
	"lastitem/internal/localstack"
)

// RedisRestarted kills the Redis that holds the lock and restarts it without its data.
var RedisRestarted = Fault{
	Name:   "redis-restarted-empty",
	Title:  api.Text{En: "Redis is killed and restarts empty: the lock is lost; the stock is in SQL", Zh: "Redis 被杀，重启后数据为空：锁丢了，库存在 SQL 里"},
	Cuts:   bothCuts,
	AtEnd:  true,
	Ignore: catchingUp,
	// With the stock in Redis nothing could be judged: initial stock, orders and remaining stock are lost together.
	Happens: func(m api.Mode, store api.Store) bool { return lockInRedis(m) && store == api.SQL },
	Lane:    rig.Equipment{Own: lockServers},
	Strike: func(ctx context.Context, p *Play) error {
		p.Outlive = recovery // no lock is left to wait for
		return p.upset(ctx, "redis is killed, and starts again empty", func(ctx context.Context) error { return p.Lane.Restart(ctx, localstack.Redis) })
	},
}

// catchingUp is ignored where Redis loses its counters: fencing tokens then restart below the highest token in the row, and every holder is
// refused until the counter has passed it. How many holders that are depends on the counter's old value.
const catchingUp = "X"
