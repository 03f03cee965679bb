package stock_test

import (
	"testing"

	"lastitem/internal/stock/stocktest"
	"lastitem/internal/testenv"
)

// envs are the sets of backends that the suite runs on.
var envs = []struct {
	name string
	open func(*testing.T) stocktest.Env
}{
	{"redis+mysql", realEnv},
	{"redis+sqlite", func(t *testing.T) stocktest.Env { return env(testenv.Redis(t), testenv.SQLite(t)) }},
	{"miniredis+sqlite", embeddedEnv},
}

func realEnv(t *testing.T) stocktest.Env { return env(testenv.Redis(t), testenv.MySQL(t)) }

func embeddedEnv(t *testing.T) stocktest.Env { return env(testenv.Miniredis(t), testenv.SQLite(t)) }

func env(r *testenv.RedisServer, dsn string) stocktest.Env {
	return stocktest.Env{Redis: r.URL, SQL: dsn, Prefix: r.Prefix}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, e := range envs {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			stocktest.Run(t, e.open(t))
		})
	}
}
