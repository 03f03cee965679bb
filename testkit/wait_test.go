package testkit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/testkit"
)

// failing is a test that notes its failure.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f)
}

// A condition that comes true is waited for, and one that does not fails the test.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, f := time.Now(), &failing{}
		testkit.Until(f, "a second", func() bool { return time.Since(began) >= time.Second })
		if took := time.Since(began); took < time.Second || took > 2*time.Second {
			t.Errorf("waited %s for a second", took)
		}
		defer func() {
			if recover() != f || f.said != "not within 1m0s: never" {
				t.Errorf("said %q, want that it was not within a minute", f.said)
			}
		}()
		testkit.Until(f, "never", func() bool { return false })
	})
}

// The failure has the last error.
func TestNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, f := time.Now(), &failing{}
		since := func() error {
			if d := time.Since(began); d < 2*time.Minute {
				return fmt.Errorf("%s have passed", d)
			}
			return nil
		}
		func() {
			defer func() {
				if recover() != f || f.said != "not within 1m0s: two minutes: 1m0.002s have passed" {
					t.Errorf("said %q, want the last error", f.said)
				}
			}()
			testkit.NoError(f, "two minutes", since)
		}()
		f.said = ""
		testkit.NoError(f, "two minutes", since)
		if took := time.Since(began); f.said != "" || took < 2*time.Minute || took > 121*time.Second {
			t.Errorf("said %q after %s, want nothing after two minutes", f.said, took)
		}
	})
}
