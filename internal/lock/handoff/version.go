package handoff

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrVersion says that a process whose engine is of another version holds the lock, or is the first to wait for it. Two versions exclude each
// other, but do not wake each other. The error names both versions, and comes with [lock.ErrUnavailable]; nothing is held. Another [Options.Prefix] is
// no remedy if both versions lock the same things: with two prefixes they do not exclude each other.
//
// A reader also gets it if something that is no engine has written the key of the lock meanwhile. The error says so. If it comes from
// Release, the lock is released.
var ErrVersion = errors.New("lock: another version of the engine is in use")

// versionPrefix begins the error of a script that has met a token of another version.
const versionPrefix = "LOCKVERSION"

// noToken follows it if the owner of the lock is no token of any version.
const noToken = "no token"

// explainVersion explains the refusal of a script that has met a token of another version; it returns every other error as it is.
func explainVersion(err error) error {
	if err == nil || !redis.HasErrorPrefix(err, versionPrefix) {
		return err
	}
	process := strings.TrimPrefix(err.Error(), versionPrefix+" ")
	if process == noToken {
		return fmt.Errorf("%w, or something else: the key of the lock has a value that no engine has written", ErrVersion)
	}
	version, _, found := strings.Cut(process, "-")
	if !found || !strings.HasPrefix(version, "v") {
		version = "v1"
	}
	return fmt.Errorf("%w: process %s has tokens of %s, this engine those of %s: end the processes of one version",
		ErrVersion, process, version, tokenVersion)
}
