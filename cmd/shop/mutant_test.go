package main

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// mutant is a defect that somebody might put into a mode, and the cell in which the lab must find it, or a test that
// finds what the lab does not play.
type mutant struct {
	name    string
	edits   []testenv.Edit
	mode    string
	store   string
	fault   string
	letters string // any of these; "!" = a violation without a letter
	pairs   bool   // the defect shows only when the rival is held too: two preemptions
	test    string // a package and a test; "" = the lab finds it
}

// No schedule was written for any of these: the lab must come upon each by trying its positions.
var mutants = []mutant{
	{
		name:  "the guard taken out of lease-seq",
		edits: []testenv.Edit{{"internal/store/sqldb/sql/both.sql", "lease_seq = ? AND stock >= ?", "? >= 0 AND ? >= 0"}},
		mode:  "lease-seq", store: "sql", fault: "pause", letters: "O",
	},
	{
		name: "the fence compared the wrong way",
		edits: []testenv.Edit{{"internal/store/sqldb/sql/both.sql", "WHERE id = ? AND fence <= ? AND way",
			"WHERE id = ? AND (fence >= ? OR fence IS NULL) AND way"}},
		mode: "fencing-read", store: "sql", fault: "pause", letters: "O",
	},
	{
		name: "a release without compare",
		edits: []testenv.Edit{{"internal/lock/textbook/lua/release.lua", "if redis.call('GET', KEYS[1]) == ARGV[1] then",
			"if ARGV[1] then"}},
		mode: "lua-lock", store: "redis", fault: "late", letters: "O",
	},
	{
		name: "the order before the guard",
		edits: []testenv.Edit{{
			"internal/stock/lease_seq.go", "err = d.Orders.InTx(ctx, order, func(tx *sqldb.Tx) error {",
			"err = d.Orders.InTx(ctx, order, func(*sqldb.Tx) error { return nil })\n\tif err != nil {\n\t\treturn Receipt{}, " +
				"err\n\t}\n" +
				"\terr = d.SQL.Tx(ctx, sqldb.ReadCommitted, func(tx *sqldb.Tx) error {",
		}},
		mode: "lease-seq", store: "sql", fault: "pause", letters: "O",
	},
	{
		name: "the key's row outside the transaction",
		edits: []testenv.Edit{{
			"internal/stock/idempotent.go", "err = d.SQL.Tx(ctx, sqldb.ReadCommitted, func(tx *sqldb.Tx) error {\n",
			"err = d.SQL.Tx(ctx, sqldb.ReadCommitted, func(tx *sqldb.Tx) (err error) {\n\t\tr, refusal, err = take(ctx, tx, " +
				"req)\n\t\treturn err\n\t})\n" +
				"\tif err != nil {\n\t\treturn Receipt{}, err\n\t}\n" +
				"\terr = d.SQL.Tx(ctx, sqldb.ReadCommitted, func(tx *sqldb.Tx) error {\n",
		}, {"internal/stock/idempotent.go", "if r, refusal, err = take(ctx, tx, req); err == nil {", "if err == nil {"}},
		mode: "idempotent", store: "sql", fault: "retry", letters: "D",
	},
	{
		name: "an ended lease handed out",
		edits: []testenv.Edit{{"internal/lock/textbook/watchdog.go",
			"late := err == nil && ttl <= 0 && lock.TooLate(sent, l.ttl)", "late := false"}},
		mode: "watchdog", store: "redis", fault: "slow", letters: "O", pairs: true,
	},
}

func allMutants() []mutant { return slices.Concat(mutants, reservationMutants, ticketMutants) }

// TestMutantsApply: each mutant can still be put into the sources. 'make lab-mutants' has the lab find them.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	for _, m := range allMutants() {
		if m.test == "" && (m.mode == "" || m.store == "" || m.fault == "" || m.letters == "") {
			t.Errorf("%+v: where must the lab find it?", m)
		}
		if pkg, test, _ := strings.Cut(m.test, " "); m.test != "" && !declares(t, filepath.Join("..", "..", pkg), test) {
			t.Errorf("%s: there is no %s", m.name, m.test)
		}
		testenv.Edited(t, filepath.Join("..", ".."), m.edits)
	}
}

// declares says whether a test stands in a directory.
func declares(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	testkit.Must(t, err)
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		return strings.Contains(string(text), "func "+test+"(")
	})
}

// TestMutantsCompile checks that each mutant compiles.
func TestMutantsCompile(t *testing.T) {
	testenv.Slow(t, "compiles what each mutant is part of")
	t.Parallel()
	for _, m := range allMutants() {
		t.Run(m.name, func(t *testing.T) {
			pkg := path.Dir(m.edits[0][0])
			if path.Ext(m.edits[0][0]) != ".go" {
				pkg = path.Dir(pkg) // a file that is embedded
			}
			cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay",
				testenv.Overlay(t, filepath.Join("..", ".."), m.edits), "./"+pkg)
			cmd.Dir = filepath.Join("..", "..")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("go build ./%s: %v\n%s", pkg, err, out)
			}
		})
	}
}
