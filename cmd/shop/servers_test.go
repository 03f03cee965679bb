package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// serversSeen adds to docs/servers.json, with -update, what runs of 'shop demo' have seen: "newer=out/a.json,out/b.json", as
// scripts/test-newer passes it.
var serversSeen = flag.String("seen", "", "ROW=DEMO.json,...: with -update, the servers of these runs become the row of the table")

// serverRow is a row of the READMEs' table of servers, but for the versions, which docs/servers.json holds.
type serverRow struct {
	name          string
	what, besides map[string]string // by language; besides stands after the versions
}

var serverRows = []serverRow{
	{
		"installed",
		map[string]string{"en": "the runs above, and `make test`", "zh": "上面的运行结果，以及 `make test`"},
		map[string]string{
			"en": "from Debian 12 (Consul: 11); miniredis and SQLite for the embedded path",
			"zh": "来自 Debian 12（Consul 来自 11）；内嵌路径为 miniredis 与 SQLite",
		},
	},
	{
		"newer",
		map[string]string{
			"en": "`make test-newer`: the tests of lock, store, backend and writeups, and a demo",
			"zh": "`make test-newer`：lock、store、backend、writeups 的测试，外加一次 demo",
		},
		map[string]string{"en": "from Debian's development release", "zh": "来自 Debian 开发版"},
	},
	{
		"compose",
		map[string]string{"en": "`make up` and `make compose-demo`", "zh": "`make up` 与 `make compose-demo`"},
		map[string]string{
			"en": "on images built from Debian 12's packages under the official names; **not seen**: the official images, and so MySQL 8.4 (LTS), Redis 7.4 and nginx 1.28",
			"zh": "镜像由 Debian 12 的软件包构建、沿用官方镜像名；官方镜像，也就是 MySQL 8.4（LTS）、Redis 7.4、nginx 1.28，**尚未验证**",
		},
	},
}

// serversFile is what runs have seen: the versions, by row.
func serversFile() string { return filepath.Join(root, "docs", "servers.json") }

// seenServer is a line by which a stack says what it has chosen.
var seenServer = regexp.MustCompile(`^(redis|redlock|sql|etcd|zookeeper|consul|balancer): (?:\d+ × )?(.+?)(?: \(private\))? at `)

// serversOf reads which servers a run was on.
func serversOf(t *testing.T, file string) (seen []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var run struct{ Stack []string }
	if err := json.Unmarshal(text, &run); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, line := range run.Stack {
		if m := seenServer.FindStringSubmatch(line); m != nil {
			seen = append(seen, m[2])
		}
	}
	return seen
}

// record puts the servers of the runs into a row. A row of newer servers leaves out those that the first row has.
func record(t *testing.T, rows map[string][]string) {
	t.Helper()
	name, files, ok := strings.Cut(*serversSeen, "=")
	if !ok {
		return
	}
	var seen []string
	for file := range strings.SplitSeq(files, ",") {
		for _, s := range serversOf(t, file) {
			if name == "installed" || !slices.Contains(rows["installed"], s) {
				seen = append(seen, s)
			}
		}
	}
	slices.Sort(seen)
	rows[name] = slices.Compact(seen)
	text, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(serversFile(), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestServersTable holds the READMEs' table of servers against docs/servers.json.
func TestServersTable(t *testing.T) {
	text, err := os.ReadFile(serversFile())
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	if *update {
		record(t, rows)
	}
	heads := map[string]string{"en": "| what | versions |", "zh": "| 内容 | 版本 |"}
	comma, stop := map[string]string{"en": ", ", "zh": "、"}, map[string]string{"en": ", ", "zh": "，"}
	for lang, name := range readmes {
		table := heads[lang] + "\n| --- | --- |\n"
		for _, row := range serverRows {
			if len(rows[row.name]) == 0 {
				t.Errorf("%s has no row %q", serversFile(), row.name)
			}
			table += fmt.Sprintf("| %s | %s%s%s |\n", row.what[lang], strings.Join(rows[row.name], comma[lang]), stop[lang], row.besides[lang])
		}
		between(t, name, "servers", table)
	}
}
