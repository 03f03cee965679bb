package backend

import (
	"strconv"
	"strings"
)

// Redact hides the password in a Redis URL, a MySQL DSN or a mysql:// URL, for logs and messages. If a URL is cut off, as at
// a comma in a password, it hides a port that is not valid.
func Redact(address string) string {
	start := 0
	if i := strings.Index(address, "://"); i >= 0 {
		start = i + 3
	}
	at := strings.LastIndex(address, "@")
	if at < 0 {
		host, port, found := strings.Cut(address[start:], ":")
		if end := strings.IndexAny(port, "/?,"); end >= 0 {
			port = port[:end]
		}
		_, err := strconv.ParseUint(port, 10, 16)
		if start == 0 || !found || err == nil || strings.HasPrefix(host, "[") {
			return address
		}
		return address[:start] + host + ":***"
	}
	colon := strings.Index(address[start:at], ":")
	if colon < 0 {
		return address
	}
	return address[:start+colon+1] + "***" + address[at:]
}

// RedactList hides the passwords of several addresses. The part after a comma may, without a scheme, be the rest of a password.
func RedactList(addresses string) string {
	var all []string
	for a := range strings.SplitSeq(addresses, ",") {
		if last := len(all) - 1; last >= 0 && !strings.Contains(a, "://") && strings.Contains(all[last], "://") {
			all[last] += "," + a
			continue
		}
		all = append(all, strings.TrimSpace(a))
	}
	for i, a := range all {
		all[i] = Redact(a)
	}
	return strings.Join(all, ",")
}
