package textbook

import (
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// notSent says that a Redis command surely never left: there was no connection for it. A client that repeats commands may have
// sent it before.
func notSent(err error) bool {
	var op *net.OpError
	return errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &op) && op.Op == "dial"
}
