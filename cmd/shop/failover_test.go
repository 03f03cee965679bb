package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"lastitem/internal/guest"
	"lastitem/judge"
	"lastitem/loadtest/failover"
	"lastitem/stack/engine"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// One kill of each engine. Where the replicas receive everything late, sales are lost that the modes do not promise to
// keep; elsewhere the command ends well, so none is lost that a mode promises to keep. A product whose server lives is
// sold on.
func TestFailover(t *testing.T) {
	testenv.Engines(t, "kills a server of each engine under load, half a minute each")
	for _, c := range []struct {
		args string
		lost bool // sales of the first mode
	}{
		{"cluster --mode redis-lua,sql-atomic", false},
		{"sentinel --mode redis-lua,sql-atomic --lag 200ms", true},
		{"replicated --mode sql-atomic", false},
		{"replicated --mode sql-atomic --lag 200ms --semi-sync=false", true},
		{"galera --mode sql-atomic", false},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := strings.Fields(c.args)
			if err := engine.Installed(args[0]); err != nil {
				testkit.Missing(t, args[0], err)
			}
			out, code := runShop(t, program(t), append([]string{"failover", "-o", "json"}, args...)...)
			var r failover.Result
			testkit.Must(t, json.Unmarshal([]byte(out), &r))
			s := r.Strikes[0]
			first, last := s.Modes[0], s.Modes[len(s.Modes)-1]
			if code != 0 || s.Vacuous != "" || s.Took <= 0 || c.lost && (first.Lost < 1 || s.Lacked < 1) ||
				first.Gap < s.Took/2 {
				t.Errorf("exit code %d, strike %+v", code, s)
			}
			if len(s.Modes) > 1 && (last.Verdict == judge.Broken || last.Gap >= first.Gap) {
				t.Errorf("%s, whose server lives: %+v", last.Mode, last)
			}
			if args[0] == engine.Cluster && (first.Others == 0 || first.Others >= first.Gap) {
				t.Errorf("products of the other masters: a gap of %v, want one that is less than %v", first.Others, first.Gap)
			}
		})
	}
}

// With --engine, whoever kills the primary sees its replica take over.
func TestEngineTakesOverWhenKilled(t *testing.T) {
	testenv.Engines(t, "kills a primary")
	if err := engine.Installed(engine.Replicated); err != nil {
		testkit.Missing(t, engine.Replicated, err)
	}
	var pid atomic.Int64
	var own guest.OwnServers
	end, err := startEngine(t.Context(), engine.Replicated, &own, "en", func(_ string, args ...any) {
		if args[0] == "primary" {
			pid.Store(int64(args[2].(int)))
		}
	})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Check(t, end()) })
	testkit.Must(t, syscall.Kill(int(pid.Load()), syscall.SIGKILL))
	db, err := sql.Open("mysql", own.SQL+"?timeout=1s")
	testkit.Must(t, err)
	testkit.Closes(t, db)
	testkit.NoError(t, "a write after the takeover", func() error {
		_, err := db.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS t (n INT)")
		return err
	})
}

// The table of docs/scale is that of the command: its columns, and a row for each engine, strike and mode.
func TestFailoverTable(t *testing.T) {
	t.Parallel()
	for lang, file := range map[string]string{"en": "scale.md", "zh": "scale.zh.md"} {
		page, err := os.ReadFile("../../docs/" + file)
		testkit.Must(t, err)
		head := "| " + strings.Join(failover.Columns(lang), " | ") + " |\n"
		_, table, found := strings.Cut(string(page), head)
		if !found {
			t.Errorf("%s has no table with the head %s", file, head)
			continue
		}
		table, _, _ = strings.Cut(table, "\n\n")
		var rows, want []string
		for line := range strings.Lines(table) {
			if cells := strings.Split(line, " | "); strings.Contains(line, ", ") {
				rows = append(rows, strings.TrimPrefix(cells[0], "| ")+" "+cells[1])
			}
		}
		for _, kind := range engine.Kinds {
			for _, how := range engine.Strikes(kind) {
				for _, mode := range failoverModes[kind] {
					want = append(want, fmt.Sprintf("%s, %s %s", kind, how, mode))
				}
			}
		}
		slices.Sort(rows)
		slices.Sort(want)
		testkit.Same(t, rows, want, "%s", file)
	}
}
