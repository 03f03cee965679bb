package handoff

import (
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// processID names this process in its tokens and in the name of its channel: the version of the tokens, a random part, the pid and the
// host. So a token names its process without a further key, which could be out of date.
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

// escapeHost leaves letters, digits and hyphens as they are, and writes every other byte as %XX: dots and blanks separate the parts of tokens
// and messages.
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
	return unescapeHost(part[3]), pid
}

func unescapeHost(s string) string {
	var b strings.Builder
	for s != "" {
		before, after, found := strings.Cut(s, "%")
		b.WriteString(before)
		if !found || len(after) < 2 {
			break
		}
		c, err := strconv.ParseUint(after[:2], 16, 8)
		if err != nil {
			break
		}
		b.WriteByte(byte(c))
		s = after[2:]
	}
	return b.String()
}
