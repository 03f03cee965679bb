package rig

import (
	"context"
	"errors"
	"strconv"
	"strings"
)

// ageing shortens the life of every key that matches a pattern and has a TTL, as if that time had passed. ARGV: pattern, milliseconds.
const ageing = `local n = 0
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local left = redis.call('PTTL', key)
  if left > 0 then
    redis.call('PEXPIRE', key, left - tonumber(ARGV[2]))
    n = n + 1
  end
end
return n`

// Expire makes A's locks expire at their servers at once, and returns how many keys and sessions were affected. In every Redis of the lane
// each key with a TTL loses the lane's TTL from its remaining life; a key without a TTL stays. In the services, given by their localstack
// names, A's sessions are ended. No clock moves, neither A's nor a server's. No thread of A may run, and A must be the only holder.
func (l *Lane) Expire(ctx context.Context, services ...string) (int, error) {
	pattern := "*" + strings.TrimSuffix(l.prefix(), lockPrefix) + "*"
	if l.Service.Alone { // its keys have no prefix
		pattern = "*"
	}
	total := 0
	for _, to := range l.links {
		if to.env != "SHOP_REDIS" && to.env != "SHOP_REDLOCK" {
			continue
		}
		n, err := redisDo(ctx, to.addr, passwordOf(to.url), "EVAL", ageing, "0", pattern, strconv.FormatInt(l.TTL.Milliseconds(), 10))
		if err != nil {
			return total, err
		}
		aged, _ := strconv.Atoi(n)
		total += aged
	}
	for _, service := range services {
		switch err := l.EndSession(ctx, service); {
		case err == nil:
			total++
		case !errors.Is(err, ErrNothing):
			return total, err
		}
	}
	return total, nil
}
