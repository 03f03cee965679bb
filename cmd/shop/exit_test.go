package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The same thing ends every command with the same code.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	url := startFakeShop(t, &fakeShop{})
	load := " --url " + url + " --token TOKEN --vus 4 --requests 60 --stock 20 --replicas 1 --quiet --out -"
	nobody := " --url http://127.0.0.1:1"
	for code, lines := range map[int][]string{
		exitOK: {
			"version", "modes", "settings", "migrate --list", "demo --mode lua-lock" + load, "loadtest --mode unsafe" + load,
		},
		exitFailed: {
			"demo --mode proud" + load, "loadtest --mode proud" + load, "demo --mode all --token x" + nobody, "loadtest --mode all" + nobody,
			"stock 101" + nobody, "rolling" + nobody, "modes --out /dev/null/modes.json",
		},
		exitUsage: {
			"demo --nope", "up --port x", "up --replicas 0", "modes nobody", "trace", "trace nobody", "loadtest", "loadtest --mode all --plan nobody" + load,
			"audit --product 0", "audit --lang fr", "lab --mode nobody", "lab --fault nobody", "lab --lanes 0", "serve --lock-ttl soon", "serve --conns 0 --redis x",
			"serve --redis zz", "migrate --sql zzz",
			"migrate", "migrate --nope", "stock 0", "rolling --backend docker", "settings more", "version --output xml", "nobody", "demo --output xml",
			"stock 101 --lang fr", "lab --output csv", "trace unsafe --output csv", "audit --out x.csv",
		},
		exitInconclusive: {"audit" + nobody, "loadtest --mode lua-lock --vus 4 --requests 60 --stock 20 --replicas 3 --token TOKEN --url " + url},
		exitThreshold:    {"loadtest --mode unsafe --threshold oversold==0" + load},
	} {
		for _, line := range lines {
			args := strings.Fields(line)
			for i, arg := range args {
				if arg == "TOKEN" {
					args[i] = fakeToken
				}
			}
			if got, out, errOut := commandLine(t.Context(), newRoot("en"), args...); got != code {
				t.Errorf("shop %s: exit %d, want %d\n%.500s%s", line, got, code, out, errOut)
			}
		}
	}
}

// The help of every command ends with the table, and a text of its own names no code that the table lacks.
func TestExitHelp(t *testing.T) {
	t.Parallel()
	known := map[int]bool{}
	for _, x := range exitCodes {
		if known[x.code] || x.means.En == "" || x.means.Zh == "" {
			t.Errorf("exit code %d is listed twice, or without a meaning", x.code)
		}
		known[x.code] = true
	}
	named := regexp.MustCompile(`exits? (?:with|code) (\d+)`)
	for _, cmd := range newRoot("en").Commands() {
		_, out, _ := commandLine(t.Context(), newRoot("en"), cmd.Name(), "--help")
		if !cmd.Hidden && !strings.Contains(out, "\nExit codes:\n"+exitHelp("en")) {
			t.Errorf("shop %s --help does not list the exit codes:\n%s", cmd.Name(), out)
		}
		for _, m := range named.FindAllStringSubmatch(cmd.Long, -1) {
			if code, err := strconv.Atoi(m[1]); err != nil || !known[code] {
				t.Errorf("shop %s --help: %q is not in the table", cmd.Name(), m[0])
			}
		}
	}
}
