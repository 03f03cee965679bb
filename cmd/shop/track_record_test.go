package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lastitem/internal/localstack"
	"lastitem/internal/testenv"
)

// envTrackRecord set to "all" runs every command of the track record; otherwise the test runs a few.
const envTrackRecord = "SHOP_TEST_TRACK_RECORD"

// sampledRecords is how many lab commands are run by default. The first rows need only Redis and MySQL.
const sampledRecords = 2

var source = regexp.MustCompile(`^\[[^\]]+\]\(https://[^)]+\)$`)

// TestTrackRecord: every row has a source, a command that runs something that exists, what it shows, and its seconds.
func TestTrackRecord(t *testing.T) {
	t.Parallel()
	c := newCommands(t)
	wantSameColumns(t, "docs/track-record", 5, 3)
	for _, doc := range []string{"docs/track-record.md", "docs/track-record.zh.md"} {
		rows := rowsOf(t, doc, 5)
		for _, row := range rows {
			c.wantCell(doc, row[2])
			if _, err := strconv.Atoi(row[4]); err != nil || !source.MatchString(row[1]) {
				t.Errorf("%s: %q: want a link to the source, and a number of seconds", doc, row)
			}
		}
		if len(rows) < 15 {
			t.Errorf("%s: %d rows, want 15 or more", doc, len(rows))
		}
	}
}

// TestTrackRecordRuns runs a few lab commands of the track record, or all commands: each must show the outcome that the page claims.
func TestTrackRecordRuns(t *testing.T) {
	t.Parallel()
	testenv.Installed(t, localstack.Redis, localstack.MySQL)
	shop := program(t)
	all := os.Getenv(envTrackRecord) == "all"
	played := 0
	for _, row := range rowsOf(t, "docs/track-record.md", 5) {
		command, shows := strings.Trim(row[2], "`"), strings.Trim(row[3], "`")
		args, ours := strings.CutPrefix(command, "bin/shop ")
		lab := strings.HasPrefix(args, "lab ")
		if !all && (!lab || played == sampledRecords) {
			continue
		}
		played++
		t.Run(command, func(t *testing.T) {
			switch {
			case lab:
				runLabRecord(t, shop, strings.Fields(args), shows)
			case ours:
				out, code := runShop(t, shop, append(strings.Fields(args), "--out", "")...)
				if code != exitOK || !strings.Contains(out, shows) {
					t.Errorf("exit %d, want %d with %q:\n%s", code, exitOK, shows, out)
				}
			default:
				cmd := exec.CommandContext(t.Context(), "sh", "-c", command+" -v")
				cmd.Dir = root
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "--- "+shows) {
					t.Errorf("%v, want %s:\n%s", err, shows, out)
				}
			}
		})
	}
	if played == 0 {
		t.Error("no command was run")
	}
}

// runLabRecord runs one lab command; it skips the test if a service that the mode needs is missing.
func runLabRecord(t *testing.T, shop string, args []string, shows string) {
	t.Helper()
	for _, service := range []string{localstack.Etcd, localstack.ZooKeeper, localstack.Redlock} {
		for i, arg := range args {
			if arg == "--mode" && args[i+1] == service {
				testenv.Installed(t, service)
			}
		}
	}
	if slices.Contains(args, "clock-jump") {
		testenv.Installed(t, localstack.Compiler)
	}
	out, code := runShop(t, shop, append(args, "-o", "json")...)
	var res struct {
		Cells []struct {
			Found string `json:"found"`
		} `json:"cells"`
	}
	if err := json.Unmarshal([]byte(out), &res); err != nil || len(res.Cells) != 1 || code != exitOK {
		t.Fatalf("exit %d, %v, want %d and one cell:\n%s", code, err, exitOK, out)
	}
	if res.Cells[0].Found != shows {
		t.Errorf("found %q, want %q", res.Cells[0].Found, shows)
	}
}
