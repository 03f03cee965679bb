package textbook

import (
	"github.com/redis/go-redis/v9"

	"lastitem/internal/step"
)

// NewSetNXFinally returns a common but wrong repair: the DEL is moved into a finally, so that no return path forgets
// it, but the failed try is inside as well.
//
//	try {
//	    if (!setIfAbsent(key, "1")) return retryLater();
//	    work();
//	} finally {
//	    delete(key);
//	}
//
// What breaks it: a second contender. Its SETNX fails, its finally deletes the holder's key, and the next contender
// enters while the holder is inside. No slow work, pause or crash is needed. Here every try that does not get the lock
// deletes the key.
func NewSetNXFinally(c redis.UniversalClient, steps *step.Stream) *SetNX {
	l := &SetNX{name: "setnx-finally", c: c, steps: steps, finally: true}
	l.take, l.drop = l.setNX, l.del
	return l
}
