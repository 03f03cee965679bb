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

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/localstack"
	"lastitem/internal/testenv"
)

// envTrackRecord set to "all" runs every command of the track record; otherwise the test runs a few.
const envTrackRecord = "SHOP_TEST_TRACK_RECORD"

// breakage is a row of the track record without its description.
type breakage struct{ source, command, shows, seconds string }

// sampledRecords is how many lab commands are run by default. The first rows need only Redis and MySQL.
const sampledRecords = 2

var link = regexp.MustCompile(`^\[[^\]]+\]\((https://[^)]+)\)$`)

// recordsOf reads the rows of a language.
func recordsOf(t *testing.T, name string) (all []breakage) {
	t.Helper()
	for line := range strings.Lines(readDoc(t, name)) {
		cells := cellsOf(line)
		if len(cells) != 5 || strings.HasPrefix(cells[0], "---") || !strings.HasPrefix(cells[2], "`") {
			continue
		}
		source := link.FindStringSubmatch(cells[1])
		if len(source) != 2 || cells[0] == "" {
			t.Errorf("%s: want words and a link: %s", name, line)
			continue
		}
		all = append(all, breakage{source[1], strings.Trim(cells[2], "`"), strings.Trim(cells[3], "`"), cells[4]})
	}
	return all
}

// Both languages have the same sources, commands and outcomes, and each command runs something that exists.
func TestTrackRecord(t *testing.T) {
	t.Parallel()
	en, zh := recordsOf(t, "docs/track-record.md"), recordsOf(t, "docs/track-record.zh.md")
	if diff := cmp.Diff(en, zh, cmp.AllowUnexported(breakage{})); diff != "" {
		t.Errorf("the languages differ (-en +zh):\n%s", diff)
	}
	if len(en) < 15 {
		t.Errorf("%d rows, want 15 or more", len(en))
	}
	for _, r := range en {
		wantRuns(t, "docs/track-record.md", r.command)
		if _, err := strconv.Atoi(r.seconds); err != nil || r.shows == "" {
			t.Errorf("%s: shows %q in %q seconds, want an outcome and a number", r.command, r.shows, r.seconds)
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
	for _, r := range recordsOf(t, "docs/track-record.md") {
		args, ours := strings.CutPrefix(r.command, "bin/shop ")
		lab := strings.HasPrefix(args, "lab ")
		if !all && (!lab || played == sampledRecords) {
			continue
		}
		played++
		t.Run(r.command, func(t *testing.T) {
			switch {
			case lab:
				runLabRecord(t, shop, strings.Fields(args), r.shows)
			case ours:
				out, code := runShop(t, shop, append(strings.Fields(args), "--out", "")...)
				if code != exitOK || !strings.Contains(out, r.shows) {
					t.Errorf("exit %d, want %d with %q:\n%s", code, exitOK, r.shows, out)
				}
			default:
				cmd := exec.CommandContext(t.Context(), "sh", "-c", r.command+" -v")
				cmd.Dir = root
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "--- "+r.shows) {
					t.Errorf("%v, want %s:\n%s", err, r.shows, out)
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
