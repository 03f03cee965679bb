package handoff

import (
	"embed"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua
var lua embed.FS

// script is one of the engine's.
type script struct {
	*redis.Script
	keys int // how many of scriptKeys it takes, if it takes those of one token: the last is the tombstone
}

var (
	engineAcquire = newScript("acquire", 5)
	engineRelease = newScript("release", 4)
	engineCancel  = newScript("cancel", 5)
	enginePoll    = newScript("poll", 5)
	engineRenew   = newScript("renew", 0)
	engineRaise   = newScript("raise", 4)
	engineForce   = newScript("force", 5)
	engineEvicted = newScript("evicted", 0)
	engineInspect = newScript("inspect", 0)
	engineCheck   = newScript("check", 0)

	engineRWRead    = newScript("rw_read", 5)
	engineRWLeave   = newScript("rw_leave", 5)
	engineRWWrite   = newScript("rw_write", 5)
	engineRWRelease = newScript("rw_release", 4)
	engineRWPoll    = newScript("rw_poll", 5)
	engineRWRenew   = newScript("rw_renew", 0)
)

func newScript(name string, keys int) *script { return compiled(source(name), keys) }

func source(name string) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// compiled puts parts where a script includes them: after the commands for a free lock, which are most of the traffic.
// Before them, the functions of pass.lua would cost Redis a quarter more CPU time for a free lock (BenchmarkFreeLock).
// A part that is included again is there already.
func compiled(text string, keys int) *script {
	for _, part := range []string{"rw_admit", "pass", "fence"} {
		text = strings.Replace(text, "-- include "+part+".lua\n", source(part), 1)
	}
	return &script{redis.NewScript(text), keys}
}

// modeScripts are the scripts for the contenders of a mode.
type modeScripts struct{ acquire, release, cancel, renew, poll *script }

func (m mode) scripts() modeScripts {
	switch m {
	case reading:
		return modeScripts{engineRWRead, engineRWLeave, engineRWLeave, engineRWRenew, engineRWPoll}
	case writing:
		return modeScripts{engineRWWrite, engineRWRelease, engineCancel, engineRenew, engineRWPoll}
	default:
		return modeScripts{engineAcquire, engineRelease, engineCancel, engineRenew, enginePoll}
	}
}
