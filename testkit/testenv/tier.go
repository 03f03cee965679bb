package testenv

import (
	"testing"

	"lastitem/testkit"
)

// Slow puts a test into the last tier, and skips it elsewhere; why says what makes it slow. It is the first statement
// of a test that go test lists, because scripts/test finds the tests of the tier by that.
func Slow(t testing.TB, why string) {
	t.Helper()
	testkit.Slow(t, why)
}
