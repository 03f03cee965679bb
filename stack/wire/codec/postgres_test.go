package codec

import (
	"bufio"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"testing"

	"lastitem/testkit"
)

// pg is a message of PostgreSQL.
func pg(kind byte, body ...string) string {
	all := strings.Join(body, "")
	return string(kind) + string(binary.BigEndian.AppendUint32(nil, uint32(4+len(all)))) + all
}

// untyped is one of the client's first messages.
func untyped(code uint32, body string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	return string(binary.BigEndian.AppendUint32(b, code)) + body
}

func pgParse(name, text string) string { return pg('P', name, "\x00", text, "\x00", "\x00\x00") }

// pgRun binds values as text, and executes.
func pgRun(name string, values ...string) string {
	body := "\x00" + name + "\x00\x00\x00" + string(binary.BigEndian.AppendUint16(nil, uint16(len(values))))
	for _, v := range values {
		body += string(binary.BigEndian.AppendUint32(nil, uint32(len(v)))) + v
	}
	return pg('B', body, "\x00\x00") + pg('E', "\x00\x00\x00\x00\x00")
}

func pgError(code string) string { return pg('E', "SERROR\x00C", code, "\x00Mno\x00\x00") }

// postgresTalk has what recorded clients do not do.
func postgresTalk() talk {
	idle, inside := pg('Z', "I"), pg('Z', "T")
	sync, describe := pg('S'), pg('D', "S\x00")
	ran := pg('2') + pg('D', "\x00\x01\x00\x00\x00\x01", "7") + pg('C', "SELECT 1\x00")
	return talk{Postgres, transcript(
		client(untyped(postgresGSS, "")), client(untyped(postgresTLS, "")),
		client(untyped(3<<16, "user\x00me\x00database\x00shop\x00\x00")),
		server(pg('R', "\x00\x00\x00\x0a", "SCRAM-SHA-256\x00\x00")), client(pg('p', "secret")),
		server(pg('R', "\x00\x00\x00\x00"), pg('S', "TimeZone\x00UTC\x00"), pg('K', "12345678"), idle),
		client(pg('Q', "SET lock_timeout = '1s'\x00"), pg('Q', ";\x00")),
		server(pg('C', "SET\x00"), idle, pg('I'), idle),
		// A group that ends with Flush has no ReadyForQuery.
		client(pgParse("", "SELECT a FROM t WHERE b = $1"), describe, pg('H')),
		server(pg('1'), pg('t', "\x00\x01\x00\x00\x00\x19"), pg('T', "\x00\x00")),
		client(pgRun("", "it's"), sync), server(ran, pg('A', "\x00\x00\x00\x01sold\x00seven\x00"), inside),
		// After an error everything up to Sync is ignored.
		client(pgParse("", "nonsense"), describe, pg('H'), pgParse("", "more"), describe, pg('H'), pgRun("", "1"), sync),
		server(pgError("42601"), idle),
		client(pgParse("S_1", "INSERT INTO o VALUES ($1, $2)"), pgRun("S_1", "1", "a"), pgRun("S_1", "2", "b"), sync,
			pgParse("", "BEGIN"), pgRun(""), pgParse("", "UPDATE s SET n = 1"), pgRun(""), sync),
		server(pg('1'), ran, ran, idle, pg('1'), ran, pg('1'), ran, inside),
		client(pg('Q', "SET LOCAL x = 1\x00"), pg('Q', "SELECT oid FROM pg_type\x00")),
		server(pg('C', "SET\x00"), inside, pgError("25P02"), pg('Z', "E")),
		// The server ignores a Sync during COPY.
		client(pgParse("", "COPY o FROM STDIN"), pgRun(""), sync), server(pg('1'), pg('2'), pg('G', "\x00\x00\x00")),
		client(pg('d', "1\n"), sync, pg('c'), sync), server(pg('C', "COPY 1\x00"), idle),
		client(pg('Q', "COPY o FROM STDIN\x00")), server(pg('G', "\x00\x00\x00")),
		client(pg('d', "1\n"), pg('f', "no\x00")), server(pgError("57014"), idle),
		client(pg('F', "\x00\x00\x00\x01"), pg('C', "SS_1\x00"), sync, sync, pg('X')),
		server(pg('V'), idle, pg('3'), idle, idle),
	), []string{
		"setup LOGIN me", "answer LOGIN me", "setup SET lock_timeout = '1s'", "setup ;", "answer SET lock_timeout = '1s'",
		"answer ;",
		"setup PREPARE SELECT a FROM t WHERE b = $1", "answer PREPARE SELECT a FROM t WHERE b = $1",
		"SELECT a FROM t WHERE b = 'it''s' | SELECT a FROM t WHERE b = ?", "push NOTIFY sold seven",
		"answer SELECT a FROM t WHERE b = 'it''s'",
		"setup PREPARE nonsense", "setup PREPARE more", "more | more", "answer PREPARE nonsense 42601", "answer more",
		"INSERT INTO o VALUES ('1', 'a'); INSERT INTO o VALUES ('2', 'b') | INSERT INTO o VALUES (?); " +
			"INSERT INTO o VALUES (?)",
		"BEGIN; UPDATE s SET n = 1 | UPDATE s SET n = ?",
		"answer INSERT INTO o VALUES ('1', 'a'); INSERT INTO o VALUES ('2', 'b')", "answer BEGIN; UPDATE s SET n = 1",
		"SET LOCAL x = 1 | SET LOCAL x = ?", "setup SELECT oid FROM pg_type", "answer SET LOCAL x = 1",
		"answer SELECT oid FROM pg_type 25P02",
		"COPY o FROM STDIN | COPY o FROM STDIN", "answer COPY o FROM STDIN", "COPY o FROM STDIN | COPY o FROM STDIN",
		"answer COPY o FROM STDIN 57014",
		"FUNCTION CALL | FUNCTION CALL", "setup SYNC", "setup SYNC", "setup QUIT", "answer FUNCTION CALL", "answer SYNC",
		"answer SYNC",
	}}
}

// recording reads what a client and a server said, a line for each piece: c or s, and the bytes as Go quotes them. The
// server's answer to a request for TLS is left out of the file, since the proxy gives it.
func recording(t *testing.T, name string) (all []byte) {
	t.Helper()
	file, err := os.Open("testdata/postgres-" + name + ".txt")
	testkit.Must(t, err)
	testkit.Closes(t, file)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		side, quoted, _ := strings.Cut(lines.Text(), " ")
		bytes, err := strconv.Unquote(quoted)
		testkit.Must(t, err)
		all = append(all, transcript(said{side == "s", bytes})...)
	}
	testkit.Must(t, lines.Err())
	return all
}

// The codec reads the same commands from each client, however it sends them: psycopg sends queries, TypeORM prepares
// every time, pg, asyncpg and pgx prepare once, and pgjdbc uses a name from the fifth time on, for COMMIT too.
// Every command but the last, which ends the connection, is answered, in order.
func TestPostgresRecorded(t *testing.T) {
	t.Parallel()
	const (
		read, write = "SELECT stock FROM products WHERE id = ?", "UPDATE products SET stock = ? WHERE id = ?"
		order       = "INSERT INTO orders (id, product) VALUES (?)"
		less        = "UPDATE products SET stock = stock - ? WHERE id = ?"
		entity      = "SELECT products.id AS products_id, products.stock AS products_stock FROM products products "
	)
	for name, tt := range map[string]struct {
		calls  []string // how often each pattern comes, in the order in which they come first
		shown  string   // one of the texts
		failed string   // the codes of all errors
	}{
		// psycopg 3.3.9 on libpq 18, Python 3.11: two purchases, an order that is there, COPY, LISTEN and NOTIFY, a
		// pipeline, a query that is prepared at its sixth time, and three statements in one query.
		"psycopg": {[]string{"4 BEGIN", "9 " + read, "2 " + write, "3 " + order, "3 COMMIT", "1 ROLLBACK",
			"1 COPY orders (id, product) FROM STDIN", "1 NOTIFY sold, ?", "1 SELECT ? + ?; SELECT ?",
			"1 BEGIN; " + write + "; COMMIT"}, "INSERT INTO orders (id, product) VALUES ('o''1', 7)", "23505"},
		// asyncpg 0.32.0: two purchases, two errors, the second when it prepares, and a binary COPY. It sends Flush.
		"asyncpg": {[]string{"2 BEGIN", "2 " + read, "2 " + write, "3 " + order, "2 COMMIT",
			"1 COPY orders FROM STDIN (FORMAT binary)"}, `UPDATE "products" SET stock = -1 WHERE id = 7`, "23505 42703"},
		// pg 8.23.1, Node 20: two purchases, an order that is there, LISTEN and NOTIFY.
		"pg": {[]string{"2 BEGIN", "2 " + read, "2 " + write, "3 " + order, "2 COMMIT", "1 SELECT pg_notify(?)"},
			"INSERT INTO orders (id, product) VALUES ('n1', '7')", "23505"},
		// TypeORM 0.3.31 on pg 8.23.1, Node 20: two purchases, an order that is there, a savepoint. It reads a row again
		// before it saves it.
		"typeorm": {[]string{"1 SELECT * FROM current_schema()", "3 START TRANSACTION",
			"2 " + entity + "WHERE ((products.id = ?)) LIMIT ?", "2 " + entity + "WHERE products.id IN (?)",
			"2 UPDATE products SET stock = ? WHERE id IN (?)", "4 INSERT INTO orders(id, product) VALUES (?)", "3 COMMIT",
			"1 SAVEPOINT ?", "1 " + less, "1 RELEASE SAVEPOINT ?", "1 SELECT orders.id AS orders_id, orders.product AS " +
				"orders_product FROM orders orders WHERE orders.id IN (?)"},
			`UPDATE "products" SET "stock" = '9' WHERE "id" IN ('7')`, "23505"},
		// pgjdbc 42.7.8, Java 17: seven purchases, a batch of three, an empty query to check the connection, an order that
		// is there.
		"pgjdbc": {[]string{"9 BEGIN", "7 " + read, "7 " + write, "8 " + order, "8 COMMIT",
			"1 " + order + "; " + order + "; " + order, "1 ROLLBACK"},
			`UPDATE "products" SET stock = -10 WHERE id = 7`, "23505"},
		// pgx 5.13.0: two purchases, an order that is there, a batch of two, a binary COPY.
		"pgx": {[]string{"2 begin", "2 " + read, "2 " + write, "3 " + order, "2 commit", "1 " + read + "; " + less,
			"1 copy orders (id, product) from stdin binary"}, "SELECT stock FROM products WHERE id = 7; UPDATE products SET " +
			"stock = stock - 1 WHERE id = 7", "23505"},
	} {
		h := cutAnywhere(t, name, Postgres, recording(t, name))
		var sent, failed, calls []string
		counted := map[string]int{}
		for _, m := range h.Messages {
			if text, ok := strings.CutPrefix(m, "answer"); ok {
				text := strings.TrimSpace(text)
				if at := strings.LastIndexByte(text, ' ') + 1; len(sent) > 0 && text != sent[0] {
					failed = append(failed, text[at:])
					text = strings.TrimSpace(text[:at])
				}
				if len(sent) == 0 || text != sent[0] {
					t.Fatalf("%s: answered %q of %q", name, text, sent)
				}
				sent = sent[1:]
				continue
			}
			text, setup := strings.CutPrefix(m, "setup ")
			text, pattern, _ := strings.Cut(text, " | ")
			if strings.HasPrefix(m, "push ") {
				continue
			}
			sent = append(sent, text)
			if setup {
				continue
			}
			if counted[pattern]++; counted[pattern] == 1 {
				calls = append(calls, pattern)
			}
		}
		for i, c := range calls {
			calls[i] = strconv.Itoa(counted[c]) + " " + c
		}
		testkit.Same(t, calls, tt.calls, "calls of %s", name)
		testkit.Is(t, strings.Join(failed, " "), tt.failed, "errors of %s", name)
		testkit.Is(t, strings.Join(sent, " ")+h.Err, "QUIT", "%s: not answered", name)
		if !strings.Contains(strings.Join(h.Messages, "\n"), tt.shown) {
			t.Errorf("%s: there is no %q", name, tt.shown)
		}
	}
}

// A statement in the dialect of PostgreSQL has the same digest in every run.
func TestPostgresDigest(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]string{
		`SELECT "stock" FROM "product" WHERE id = $1`:     "SELECT stock FROM product WHERE id = ?",
		`SELECT E'it\'s', 'a\', $$b;c$$, $x$ $$ $x$ -- d`: "SELECT ?",
		`INSERT INTO o(a, b) VALUES ($1, $12), (-3, b)`:   "INSERT INTO o(a, b) VALUES (?), (?, b)",
		`SELECT a #> '{b}' FROM t--1`:                     "SELECT a # > ? FROM t",
		`RELEASE SAVEPOINT "s1_x7"`:                       "RELEASE SAVEPOINT ?",
	} {
		testkit.Is(t, PostgresDigest(statement), want, "PostgresDigest(%s)", statement)
	}
}
