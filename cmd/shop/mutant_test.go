package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"lastitem/internal/testenv"
)

// mutant is a defect that somebody might put into a mode, and the cell in which the lab must find it.
type mutant struct {
	name    string
	edits   []edit
	mode    string
	store   string
	fault   string
	letters string // any of these
	pairs   bool   // the defect shows only when the rival is held too: two preemptions
}

// edit replaces a text, which stands once in a file of the module.
type edit struct{ file, old, text string }

// No schedule was written for any of these: the lab must come upon each by trying its positions.
var mutants = []mutant{
	{
		name:  "the guard taken out of lease-seq",
		edits: []edit{{"internal/store/sql/take_at.sql", "lease_seq = ? AND stock >= ?", "? >= 0 AND ? >= 0"}},
		mode:  "lease-seq", store: "sql", fault: "pause", letters: "O",
	},
	{
		name:  "the fence compared the wrong way",
		edits: []edit{{"internal/store/sql/set_fenced.sql", "AND fence <= ?", "AND (fence >= ? OR fence IS NULL)"}},
		mode:  "fencing-read", store: "sql", fault: "pause", letters: "O",
	},
	{
		name:  "a release without compare",
		edits: []edit{{"internal/lock/textbook/lua/release.lua", "if redis.call('GET', KEYS[1]) == ARGV[1] then", "if ARGV[1] then"}},
		mode:  "lua-lock", store: "redis", fault: "late", letters: "O",
	},
	{
		name: "the order before the guard",
		edits: []edit{{
			"internal/stock/lease_seq.go", "err = d.Orders.InTx(ctx, order, func(tx *store.Tx) error {",
			"err = d.Orders.InTx(ctx, order, func(*store.Tx) error { return nil })\n\tif err != nil {\n\t\treturn Receipt{}, err\n\t}\n" +
				"\terr = d.SQL.Tx(ctx, store.ReadCommitted, func(tx *store.Tx) error {",
		}},
		mode: "lease-seq", store: "sql", fault: "pause", letters: "O",
	},
	{
		name: "the key's row outside the transaction",
		edits: []edit{{
			"internal/stock/idempotent.go", "err = d.SQL.Tx(ctx, store.ReadCommitted, func(tx *store.Tx) error {\n",
			"err = d.SQL.Tx(ctx, store.ReadCommitted, func(tx *store.Tx) (err error) {\n\t\tr, refusal, err = i.take(ctx, tx, req)\n\t\treturn err\n\t})\n" +
				"\tif err != nil {\n\t\treturn Receipt{}, err\n\t}\n" +
				"\terr = d.SQL.Tx(ctx, store.ReadCommitted, func(tx *store.Tx) error {\n",
		}, {"internal/stock/idempotent.go", "if r, refusal, err = i.take(ctx, tx, req); err == nil {", "if err == nil {"}},
		mode: "idempotent", store: "sql", fault: "retry", letters: "D",
	},
	{
		name:  "an ended lease handed out",
		edits: []edit{{"internal/lock/textbook/watchdog.go", "late := err == nil && ttl <= 0 && lease.TooLate(sent, l.ttl)", "late := false"}},
		mode:  "watchdog", store: "redis", fault: "slow", letters: "O", pairs: true,
	},
}

// TestMutantsApply: each mutant can still be put into the sources. 'make lab-mutants' has the lab find them.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		if m.mode == "" || m.store == "" || m.fault == "" || m.letters == "" {
			t.Errorf("%+v: where must the lab find it?", m)
		}
		overlay(t, m.edits)
	}
}

// TestMutantsCompile: what was put into the sources is Go.
func TestMutantsCompile(t *testing.T) {
	testenv.Slow(t, "compiles what each mutant is part of")
	t.Parallel()
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			pkg := path.Dir(m.edits[0].file)
			if path.Ext(m.edits[0].file) != ".go" {
				pkg = path.Dir(pkg) // a file that is embedded
			}
			cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay(t, m.edits), "./"+pkg)
			cmd.Dir = filepath.Join("..", "..")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("go build ./%s: %v\n%s", pkg, err, out)
			}
		})
	}
}

// overlay writes the sources with the edits, and the file that tells the compiler to read those instead. It leaves the sources alone.
func overlay(t *testing.T, edits []edit) (file string) {
	t.Helper()
	dir := t.TempDir()
	replaced, texts := map[string]string{}, map[string]string{}
	for _, e := range edits {
		file, err := filepath.Abs(filepath.Join("..", "..", e.file))
		if err != nil {
			t.Fatal(err)
		}
		if _, begun := texts[file]; !begun {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
		}
		if n := strings.Count(texts[file], e.old); n != 1 {
			t.Fatalf("%s: %q stands there %d times, want once", e.file, e.old, n)
		}
		texts[file] = strings.Replace(texts[file], e.old, e.text, 1)
		replaced[file] = filepath.Join(dir, filepath.Base(file))
	}
	for file, text := range texts {
		if err := os.WriteFile(replaced[file], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
