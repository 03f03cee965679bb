package textbook

import (
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// notSent says whether a Redis command was certainly not sent, because there was no connection for it. With a client
// that repeats commands this is not certain: an earlier try may have been sent.
func notSent(err error) bool {
	var op *net.OpError
	return errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &op) && op.Op == "dial"
}
