package codec_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"lastitem/stack/wire/codec"
	"lastitem/testkit"
)

func TestKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"":                            "",
		"stock:{101}":                 "stock:{#}",
		"lastitem:lock:lua-lock:{7}":  "lastitem:lock:lua-lock:{#}",
		"product_stock_2024_archive1": "product_stock_#_archive#",
		"OrderServiceLockKeyName":     "OrderServiceLockKeyName",
		"internationalization":        "internationalization",
		"SCREAMING_SNAKE_CASE_KEY":    "SCREAMING_SNAKE_CASE_KEY",
		"lock:00000000-1111-2222-3333-444444444444:7":      "lock:*:#",
		"/lock/_c_0123456789abcdef0123456789abcdef-n-0000": "/lock/_c_*-n-#",
		"/lock/n-0000000012":                               "/lock/n-*",
		"lock/694d9a2b3c4d5e6f":                            "lock/*",
		"k:dGhpcyBpcyBub3QgYSB3b3Jk==":                     "k:*",
		"/v#/kv/a?acquire=deadbeef01":                      "/v#/kv/a?acquire=*",
		"锁:{12}":                                           "锁:{#}",
		"seg:3:stock:{101}:1700000000":                     "seg:#:stock:{#}:*",
		"redisson_lock__channel:{lock}":                    "redisson_lock__channel:{lock}",
	} {
		testkit.Is(t, codec.Key(key), want, "Key(%q)", key)
	}
}

// Ids of every usual kind leave the same pattern, whatever they are.
func TestKeyIsStable(t *testing.T) {
	t.Parallel()
	random := func(n int) []byte {
		b := make([]byte, n)
		_, _ = rand.Read(b)
		return b
	}
	for name, id := range map[string]func() string{
		"UUID": uuid.NewString, "base32": rand.Text,
		"hex of 8 bytes": func() string {
			return hex.EncodeToString(random(8))
		}, "hex of 16 bytes": func() string { return hex.EncodeToString(random(16)) },
		"base64url":  func() string { return base64.RawURLEncoding.EncodeToString(random(20)) },
		"number":     func() string { return fmt.Sprint(int(random(1)[0]) * 1000) },
		"sequential": func() string { return uuid.NewString() + "-0000000012" },
		"behind":     func() string { return "Order-" + uuid.NewString() },
		"both":       func() string { return uuid.NewString() + ":" + fmt.Sprint(random(1)[0]) },
	} {
		seen := map[string]int{}
		for range 3000 {
			seen[codec.Key("lock:"+id()+":waiters")]++
		}
		most := 0
		for _, n := range seen {
			most = max(most, n)
		}
		if most < 2970 { // one in a hundred of random text may look like words
			t.Errorf("%s: %d of 3000 have the same pattern, of %d", name, most, len(seen))
		}
	}
}

func TestSQLDigest(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]string{
		"UPDATE product_stock SET stock = 99 WHERE id = 101": "UPDATE product_stock SET stock = ? WHERE id " +
			"= ?",
		"UPDATE `product_stock` SET `stock`=stock-1 WHERE id=? AND stock>0": "UPDATE product_stock SET stock = stock - ? " +
			"WHERE id = ? AND stock > ?",
		"/* job 7 */ SELECT\n\t'it''s \\' 1', \"x\" -- why\nFROM t LIMIT 5": "SELECT ? FROM t LIMIT ?",
		"SELECT * FROM t WHERE id IN (1, 2,3) AND a >= -1.5e-3 AND b<>0x1f": "SELECT * FROM t WHERE id IN (?) AND a >= ? " +
			"AND b <> ?",
		"INSERT INTO orders (id, key) VALUES ('a', _binary'\x00'), (?, ?);": "INSERT INTO orders (id, key) VALUES (?)",
		"SELECT COUNT(*), t.* FROM t1 AS t WHERE a = X'4D' AND b = TRUE": "SELECT COUNT(*), t.* FROM t1 AS t WHERE a = " +
			"? AND b = TRUE",
		"SAVEPOINT sp0xc00012ab": "SAVEPOINT ?",
		"COMMIT":                 "COMMIT",
		"SELECT a FROM lab_0123456789abcdef.stock FOR UPDATE": "SELECT a FROM lab_*.stock FOR UPDATE",
		"SELECT 'not closed": "SELECT ?",
		"":                   "",
	} {
		testkit.Is(t, codec.SQLDigest(statement), want, "SQLDigest(%q)", statement)
	}
}

func TestScriptNames(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"-- Takes a free lock, or queues. Twice.\nreturn 1":                   "'Takes a free lock, or queues'",
		"-- sell.lua: takes units\nreturn 2":                                  "sell.lua",
		"#!lua flags=no-writes\n-- Reads.\nreturn 3":                          "Reads",
		"if redis.call('get', KEYS[1]) == ARGV[1] then return 1 end return 0": `"if redis.call('get', KEYS[1]) == ~2795"`,
	} {
		testkit.Is(t, codec.Names.Learn(body), want, "Learn(%q)", body)
	}
	if got := codec.Names.Of("ABCDEF0123"); got != "script-abcdef01" {
		t.Errorf("the name of nobody's script is %s", got)
	}
}

func FuzzSQLDigest(f *testing.F) {
	for _, s := range []string{"SELECT '", "/*", "x = -1", "a.*", "`a", "_binary'x", "0x", "(?), (?)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, statement string) {
		if once, again := codec.SQLDigest(statement), codec.SQLDigest(statement); once != again {
			t.Errorf("%q and %q", once, again)
		}
		codec.Key(statement)
	})
}

func TestRedisWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		`"set" "a b" "\x00\xff\"\\\n"`: {"set", "a b", "\x00\xff\"\\\n"},
		`"ping"`:                       {"ping"},
		`ping`:                         nil,
		`"ping`:                        nil,
		``:                             nil,
	} {
		got, ok := codec.RedisWords(line)
		if diff := cmp.Diff(want, got); diff != "" || ok != (want != nil) {
			t.Errorf("RedisWords(%s) = %q, %t, want %q", line, got, ok, want)
		}
	}
}

// A statement that does several things inside the database is known by its digest.
func TestSQLInside(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]string{
		"CALL buy(7, 'k')":                        codec.SQLProcedure,
		"/* app */ call buy(?, @out)":             codec.SQLProcedure,
		"SELECT buy_one(7)":                       codec.SQLProcedure,
		"EXECUTE s USING @a":                      codec.SQLProcedure,
		"BEGIN; UPDATE a SET n = 1; COMMIT":       codec.SQLStatements,
		"BEGIN NOT ATOMIC SELECT 1; END":          codec.SQLStatements,
		"INSERT INTO o SELECT 1 FROM s":           codec.SQLSubquery,
		"insert into o(a) (select 1 from dual)":   codec.SQLSubquery,
		"UPDATE s SET n = (SELECT COUNT(*) - 1)":  codec.SQLSubquery,
		"UPDATE s SET n = n - 1 WHERE n >= 1;":    "",
		"INSERT INTO o(t) VALUES ('a; SELECT b')": "",
		"SELECT n FROM s WHERE id = 7 FOR UPDATE": "",
		"SELECT LAST_INSERT_ID()":                 "",
		"SELECT COUNT(*) FROM o":                  "",
		"COMMIT":                                  "",

		"SELECT * FROM buy_one(7)":            codec.SQLProcedure,
		"SELECT n FROM GENERATE_SERIES(1, 2)": "",
		"SELECT pg_try_advisory_xact_lock(7)": "",
		"DO ?":                                codec.SQLProcedure,
		"MERGE INTO s USING t ON s.a = t.a":   codec.SQLSubquery,
		"WITH a AS (UPDATE s SET n = 1 RETURNING n) SELECT n FROM a": codec.SQLSubquery,
		"WITH a AS (SELECT 1) INSERT INTO o TABLE a":                 codec.SQLSubquery,
		"WITH a AS (SELECT 1) SELECT n FROM s FOR UPDATE":            "",
		"INSERT INTO o(id) VALUES (1) ON CONFLICT DO NOTHING":        "",
	} {
		testkit.Is(t, codec.SQLInside(codec.SQLDigest(statement)), want, "SQLInside(%s)", codec.SQLDigest(statement))
	}
}
