package wire

import (
	"strings"
	"testing"
)

// The kept part of a long answer is its beginning, without gaps.
func TestKeepLongAnswer(t *testing.T) {
	t.Parallel()
	k := &Command{holds: []*Hold{{}}}
	for _, part := range []string{"begin", strings.Repeat("x", 2*mostKept), "end"} {
		k.keep([]byte(part))
	}
	if got := string(k.raw); got != "begin"+strings.Repeat("x", mostKept-len("begin")) {
		t.Errorf("kept %d bytes, which end with %q", len(got), got[max(0, len(got)-8):])
	}
}
