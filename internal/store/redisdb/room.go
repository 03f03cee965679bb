package redisdb

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// roomEvery is how often a refusal asks its server how much memory is in use.
const roomEvery = 200 * time.Millisecond

// rooms knows which servers use more than half of their memory. There, refusals are not kept: they cost the client
// nothing, and those of many products together would fill a server whose other half the sales need. The zero value is
// ready.
type rooms struct {
	of sync.Map // the address of a master of a cluster, "" = the only server -> *room
}

type room struct {
	asked atomic.Int64 // Unix nanoseconds
	full  atomic.Bool
}

// keepsRefusals says whether the server of a key has room for a refusal. A server that does not tell has.
func (r *rooms) keepsRefusals(ctx context.Context, c redis.UniversalClient, key string) bool {
	server, address := redis.Cmdable(c), ""
	if cluster, ok := c.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return true // the sale finds out
		}
		server, address = master, master.Options().Addr
	}
	found, _ := r.of.LoadOrStore(address, &room{})
	at := found.(*room)
	now, last := time.Now().UnixNano(), at.asked.Load()
	if now-last >= int64(roomEvery) && at.asked.CompareAndSwap(last, now) {
		info, err := server.Info(ctx, "memory").Result()
		at.full.Store(err == nil && overHalf(info))
	}
	return !at.full.Load()
}

// overHalf reads the section memory of INFO. Without maxmemory, the memory of the machine is the limit.
func overHalf(info string) bool {
	sizes := map[string]int64{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			sizes[name] = n
		}
	}
	limit := sizes["maxmemory"]
	if limit == 0 {
		limit = sizes["total_system_memory"]
	}
	return limit > 0 && sizes["used_memory"] > limit/2
}
