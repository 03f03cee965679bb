package testenv

import (
	"testing"
	"time"

	"lastitem/stack"
)

// ClockedMySQL gives a MySQL or MariaDB of the test's own, and a function that sets its wall clock to the machine's
// time plus offset, at once. It needs a C compiler.
func ClockedMySQL(t testing.TB) (dsn string, set func(offset time.Duration)) {
	t.Helper()
	Installed(t, stack.MySQL, stack.Compiler)
	running, err := stack.Start(t.Context(), stack.Options{Only: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Close(); err != nil {
			t.Error(err)
		}
	})
	clock, err := running.NewClock(t.Context(), "sql clock")
	if err != nil {
		t.Fatal(err)
	}
	run, err := running.SpawnSQL(t.Context(), stack.SQLServer{Name: "clocked", Env: clock.Env()})
	if err != nil {
		t.Fatal(err)
	}
	return run.URL, func(offset time.Duration) {
		t.Helper()
		if err := clock.Set(offset); err != nil {
			t.Fatal(err)
		}
	}
}
