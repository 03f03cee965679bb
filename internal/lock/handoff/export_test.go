package handoff

import "github.com/redis/go-redis/v9"

// IsPoll reports whether a script is a waiter's poll, for tests outside of this package.
func IsPoll(cmd redis.Cmder) bool {
	script, _ := cmd.Args()[1].(string) // its hash or its text
	return script == enginePoll.Hash() || redis.NewScript(script).Hash() == enginePoll.Hash()
}

// Watches says whether the engine polls key: one of its waiters knows that it is in the queue.
func (e *Engine) Watches(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pollers[key] != nil
}
