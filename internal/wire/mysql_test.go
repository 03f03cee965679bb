package wire_test

import (
	"regexp"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"lastitem/internal/backend"
	"lastitem/internal/testenv"
	"lastitem/internal/wire"
)

// numberless hides the number of a prepared statement, which the server counts for everybody.
func numberless(calls []string) []string {
	for i, c := range calls {
		calls[i] = statementNumber.ReplaceAllString(c, "EXECUTE statement <n>")
	}
	return calls
}

var statementNumber = regexp.MustCompile(`^EXECUTE statement \d+$`)

func TestMySQL(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	cfg, err := driver.ParseDSN(testenv.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Addr = tap(t, &r, cfg.Addr, wire.MySQL)
	db, err := backend.OpenSQL(cfg.FormatDSN(), 1)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	var n int
	if err := pool.QueryRowContext(t.Context(), "SELECT\n\t? + 1", 41).Scan(&n); err != nil || n != 42 {
		t.Fatalf("%d, %v", n, err)
	}
	bytes := []byte{0, 1, '\'', 0xff}
	if err := pool.QueryRowContext(t.Context(), "SELECT 1 FROM dual WHERE 'x' = ? OR 1", bytes).Scan(&n); err != nil {
		t.Fatal(err)
	}
	prepared, err := pool.PrepareContext(t.Context(), "SELECT ?")
	if err != nil {
		t.Fatal(err)
	}
	if err := prepared.QueryRowContext(t.Context(), 7).Scan(&n); err != nil {
		t.Fatal(err)
	}
	_ = prepared.Close()
	if err := pool.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, []string{
		"SELECT 41 + 1", "SELECT 1 FROM dual WHERE 'x' = <bytes> OR 1", "PREPARE SELECT ?", "EXECUTE statement <n>",
	}, numberless(recorded(t, &r)))
	calls := r.Between(time.Time{}, time.Now())
	for i := range calls[1:] {
		if calls[i].Answered.After(calls[i+1].Sent) {
			t.Errorf("%s is answered after %s was sent", calls[i].Text, calls[i+1].Text)
		}
	}
}
