// Package testkit is what tests of all packages need and what imports none of ours. It says what becomes of a test that
// lacks a server or a program of the machine: it is skipped, and 'make test' lists it, or it fails where that must be
// there, as in CI.
package testkit

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Env names what must be there, separated by commas.
const Env = "SHOP_TEST_REQUIRE"

// EnvTier is the tier whose marked tests run: "all" for make test-all, "engines" for make test-engines.
const EnvTier = "SHOP_TEST_TIER"

// Slow is testenv.Slow for packages that testenv imports.
func Slow(t testing.TB, why string) {
	t.Helper()
	inTier(t, "all", why)
}

// Engines is testenv.Engines for packages that testenv imports.
func Engines(t testing.TB, why string) {
	t.Helper()
	inTier(t, "engines", why)
}

func inTier(t testing.TB, tier, why string) {
	t.Helper()
	if os.Getenv(EnvTier) != tier {
		t.Skipf("slow, make test-%s (or %s=%[1]s) runs it: %s", tier, EnvTier, why)
	}
}

// NotQuick skips the test in the first tier, which starts no installed program, for want of name.
func NotQuick(t testing.TB, name string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("needs %s: make test runs it", name)
	}
}

// Missing skips the test for want of name, or fails it where name is required.
func Missing(t testing.TB, name string, why error) {
	t.Helper()
	failIfRequired(t, name, why)
	t.Skipf("needs %s: %v", name, why)
}

// Asked returns the value of an environment variable that asks for the test, or skips the test if nobody asks; how says
// who or what sets it.
func Asked(t testing.TB, variable, how string) string {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		t.Skipf("runs only if %s is set: %s", variable, how)
	}
	return value
}

// Without notes that a test goes on without name, or fails it where name is required.
func Without(t testing.TB, name string, why error) {
	t.Helper()
	failIfRequired(t, name, why)
	t.Logf("without %s: %v", name, why)
}

func failIfRequired(t testing.TB, name string, why error) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv(Env), ","), name) {
		t.Fatalf("testenv: %s is required (%s): %v", name, Env, why)
	}
}
