package testenv

import (
	"testing"

	"lastitem/testkit"
)

// Slow leaves a test to make test-all, and skips it elsewhere; why says what makes it slow. Like [Engines] and
// [Redisson] it is in the first statement of a test that go test lists, because scripts/test finds the tests of a tier
// by that.
func Slow(t testing.TB, why string) {
	t.Helper()
	testkit.Slow(t, why)
}

// Engines leaves a test to make test-engines, which runs by hand and at night: it shows what others' servers do when
// one of them dies, rather than what ours do.
func Engines(t testing.TB, why string) {
	t.Helper()
	testkit.Engines(t, why)
}

// Redisson gives the directory of Redisson's jars, or skips the test where nobody has fetched them.
func Redisson(t testing.TB) string {
	t.Helper()
	return testkit.Asked(t, "SHOP_TEST_REDISSON", "the directory that scripts/real-redisson prints, as make test-engines "+
		"sets it; needs Java")
}
