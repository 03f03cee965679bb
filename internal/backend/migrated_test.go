package backend_test

import (
	"testing"

	"lastitem/internal/backend"
	"lastitem/internal/testenv"
)

// A database whose tables cannot be looked at is not one without them: a demo on it would drop them at its end.
func TestMigratedDoesNotGuess(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	db := migrated(t, dsn)
	if there, err := backend.Migrated(t.Context(), db); !there || err != nil {
		t.Errorf("Migrated() = %t, %v, want true, nil", there, err)
	}
	blind := open(t, testenv.MySQLUser(t, dsn, "CREATE, INSERT"))
	if there, err := backend.Migrated(t.Context(), blind); there || err == nil {
		t.Errorf("Migrated() by an account that may not read = %t, %v, want an error", there, err)
	}
	empty := open(t, testenv.SQLite(t))
	if there, err := backend.Migrated(t.Context(), empty); there || err != nil {
		t.Errorf("Migrated() of an empty file = %t, %v, want false, nil", there, err)
	}
}
