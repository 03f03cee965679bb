package testenv

import (
	"os"
	"testing"
)

// EnvTier is "all" while make test-all runs the tests of the last tier.
const EnvTier = "SHOP_TEST_TIER"

// Slow puts a test into the last tier, and skips it elsewhere; why says what makes it slow. It is the first statement of a test that go test
// lists, because scripts/test finds the tests of the tier by that.
func Slow(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(EnvTier) != "all" {
		t.Skipf("slow, make test-all (or %s=all) runs it: %s", EnvTier, why)
	}
}
