package handoff

import "github.com/redis/go-redis/v9"

// IsPoll reports whether a script is a waiter's poll, for tests outside of this package.
func IsPoll(cmd redis.Cmder) bool {
	script, _ := cmd.Args()[1].(string) // its hash or its text
	return script == enginePoll.Hash() || redis.NewScript(script).Hash() == enginePoll.Hash()
}
