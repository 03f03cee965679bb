package main

import (
	"strings"
	"testing"
)

// Commands are counted for every split of the writes, and for every content.
func TestCommandStream(t *testing.T) {
	const traffic = "*2\r\n$5\r\nhello\r\n$1\r\n3\r\n" +
		"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$12\r\na\r\n*1\r\n$4\r\nx\r\n" + // a value that looks like a command
		"*1\r\n$4\r\nPING\r\n" +
		"*2\r\n$6\r\nclient\r\n$7\r\ncaching\r\n" +
		"*3\r\n$7\r\nEVALSHA\r\n$0\r\n\r\n$1\r\n0\r\n" +
		"*2\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n"
	const want = 3 // set, EVALSHA, subscribe
	for size := 1; size <= len(traffic); size++ {
		var s commandStream
		got := int64(0)
		for rest := traffic; rest != ""; {
			n := min(size, len(rest))
			got += s.read([]byte(rest[:n]))
			rest = rest[n:]
		}
		if got != want {
			t.Errorf("%s... in pieces of %d bytes: %d commands, want %d", strings.SplitN(traffic, "\r", 2)[0], size, got, want)
		}
	}
}
