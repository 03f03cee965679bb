package fault

import (
	"context"

	"lastitem/faultlab/rig"
	"lastitem/internal/api"
	"lastitem/internal/localstack"
)

// RedisRestarted kills the Redis of the lock and starts it again without its data.
var RedisRestarted = Fault{
	Name:   "redis-restarted-empty",
	Title:  api.Text{En: "Redis is killed and starts again empty: the lock is forgotten, the stock is in SQL", Zh: "Redis 被杀后空着重启：锁没了，库存在 SQL 里"},
	Cuts:   bothCuts,
	AtEnd:  true,
	Ignore: catchingUp,
	// With the stock in Redis nothing is left that could be judged: initial stock, orders and stock are gone together.
	Happens: func(m api.Mode, store api.Store) bool { return lockInRedis(m) && store == api.SQL },
	Lane:    rig.Equipment{Own: lockServers},
	Strike: func(ctx context.Context, p *Play) error {
		p.Outlive = recovery // no lock is left that somebody would have to wait for
		return p.upset(ctx, "redis is killed, and starts again empty", func(ctx context.Context) error { return p.Lane.Restart(ctx, localstack.Redis) })
	},
}

// catchingUp is not counted where Redis forgets its counters: the tokens of the fencing modes begin again below what the row has seen, and
// every holder is refused until the counter has passed that. How many that are depends on how long the counter has counted.
const catchingUp = "X"
