package localstack

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// StartMiniredis starts an embedded Redis on addr ("127.0.0.1:0" takes a free port) in this process. Its keys expire as real
// time passes, which miniredis by itself leaves to the test. It has no SPUBLISH, SSUBSCRIBE, WAIT or "INFO server".
// The caller closes it.
func StartMiniredis(addr string) (*miniredis.Miniredis, error) {
	m := miniredis.NewMiniRedis()
	if err := m.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("localstack: embedded Redis: %w", err)
	}
	// Exact: TTLs are brought up to date before every command, so no key lives or dies by the width of a tick.
	m.ClockTTL(true)
	return m, nil
}
