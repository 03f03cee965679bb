package handoff

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"lastitem/internal/lock"
)

// Keys are the keys that the engine keeps in Redis for one lock. Deleting them is harmless while nobody holds the lock
// or waits for it: no fence is below the server's clock, in microseconds. So fences go back, with a counter that was
// lost or a replica that lagged, only if the clock went back by more than the time since the last grant that is
// missing. After such a jump they are too low until the clock has caught up, and data that checks them refuses its
// holders.
//
// There are also tombstones. A cancelled attempt leaves one for a minute. A read lock leaves one for ten seconds if its
// acquire may have been sent twice.
type Keys struct {
	Lock  string // the owner's token, for as long as the lock is held
	Queue string // the waiters' tokens; expires two minutes after a waiter last joined or was polled
	// the fencing counter, the last ticket and the last grantee; expires one and a half to two minutes after the last
	// grant, two after the last wait
	Fence        string
	LastReleaser string // the token of the last release; lasts a TTL or a minute at most
	// the readers' tokens; lasts no longer than the last of them, or ten seconds longer if a writer waits
	Readers string
}

// KeysOf returns the keys of the lock that is called key.
func KeysOf(key string) Keys {
	tag, dot := lock.KeyTag(key)
	return Keys{Lock: key, Queue: tag + dot + "queue", Fence: tag + dot + "fence", LastReleaser: tag + dot + "last",
		Readers: tag + dot + "readers"}
}

// KeysOf returns the keys of the engine's lock that is called key; they begin with [Options.Prefix].
func (e *Engine) KeysOf(key string) Keys { return KeysOf(e.keyName(key)) }

// keyName returns the name in Redis of the lock that is called key. With a prefix, a key without a hash tag gets one:
// else the names of the keys beside it would begin with a brace. The dot keeps "a" and "{a}" apart.
func (e *Engine) keyName(key string) string {
	name := e.o.Prefix + key
	if e.o.Prefix == "" || lock.HashTag(name) != "" {
		return name
	}
	return e.o.Prefix + "{" + key + "}."
}

// scriptKeys returns the [Keys] that every script gets, and the tombstone of a token.
func scriptKeys(key, token string) [5]string {
	tag, dot := lock.KeyTag(key)
	beside := tag + dot
	return [5]string{key, beside + "queue", beside + "fence", beside + "last", beside + "ended:" + token}
}

func readersKey(key string) string {
	return lock.BesideKey(key, "readers")
}

// hashed is the part of a key that Redis Cluster hashes.
func hashed(key string) string {
	if tag := lock.HashTag(key); tag != "" {
		return tag
	}
	return key
}

// newToken names a new attempt of c: the process to notify (see processID), a number that is never used twice, after an
// L if c has a lease time, how many fencing tokens a grant reserves, and how many milliseconds a grant by message may
// stay unanswered.
func (c *contender) newToken() string {
	e, number := c.e, "."
	if c.lease > 0 {
		number = ".L"
	}
	e.lastNumber++
	number += strconv.FormatUint(e.lastNumber, 36)
	return e.id + number + "." + decimal(c.mode.fences(e.o.Cohort)) + "." + decimal(e.grantTimeout.Milliseconds())
}

// processID names this process in its tokens and in the name of its channel: the version of the tokens, a random part,
// the pid and the host. So a token names its process without a further key, which could be out of date.
func processID() string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return tokenVersion + "-" + rand.Text()[:16] + "-" + strconv.Itoa(os.Getpid()) + "-" + escapeHost(host)
}

// tokenVersion begins every token.
const tokenVersion = "v2"

// maxHost bounds the bytes of a host's name in a token.
const maxHost = 64

// escapeHost leaves letters, digits and hyphens as they are, and writes every other byte as %XX: dots and blanks
// separate the parts of tokens and messages.
func escapeHost(host string) string {
	var b strings.Builder
	for i := range min(len(host), maxHost) {
		switch c := host[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// whose reads host and pid from a token; the host is "" if the token is not one of this version.
func whose(token string) (host string, pid int) {
	process, _, _ := strings.Cut(token, ".")
	part := strings.SplitN(process, "-", 4)
	if len(part) != 4 || part[0] != tokenVersion {
		return "", 0
	}
	pid, err := strconv.Atoi(part[2])
	if err != nil {
		return "", 0
	}
	host, _ = url.PathUnescape(part[3])
	return host, pid
}
