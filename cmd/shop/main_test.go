package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"lastitem/internal/cli"
	"lastitem/stack"
	"lastitem/testkit"
)

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, line := range []string{"stock 101", "audit", "loadtest --mode mutex", "migrate --sql u:x@tcp(127.0.0.1:1)/shop",
		"demo --redis redis://127.0.0.1:1"} {
		if code, _, errOut := commandLine(ctx, newRoot("en"), strings.Fields(line)...); code != cli.ExitInterrupted {
			t.Errorf("shop %s after Ctrl-C: exit %d, %s; want %d", line, code, errOut, cli.ExitInterrupted)
		}
	}
	// A setting that is wrong is still told as such.
	if code, _, errOut := commandLine(ctx, newRoot("en"), "serve", "--conns", "many"); code != cli.ExitUsage {
		t.Errorf("shop serve with a wrong setting after Ctrl-C: exit %d, %s; want %d", code, errOut, cli.ExitUsage)
	}
}

// Whether the results can be written is asked before there are any.
func TestResultsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	url, dir := startFakeShop(t, &fakeShop{deducted: func() { t.Error("a request was sent") }}), t.TempDir()
	for _, c := range []struct {
		command string
		flag    string
	}{{"demo", "--out"}, {"loadtest", "--out"}, {"loadtest", "--history"}, {"loadtest", "--html"}} {
		for _, file := range []string{"/dev/null/x.json", dir} {
			args := []string{c.command, "--url", url, "--token", fakeToken, "--mode", "lua-lock", c.flag, file}
			code, out, errOut := commandLine(t.Context(), newRoot("en"), args...)
			if code != cli.ExitFailed || !strings.Contains(errOut, "shop: "+c.flag+": ") {
				t.Errorf("shop %q: exit %d, %s%s; want exit %d and the flag", args, code, out, errOut, cli.ExitFailed)
			}
		}
	}
	if err := cli.Writable(dir + "/a/b.json"); err != nil {
		t.Errorf("writable() = %v for a file in a directory that can be made", err)
	}
	if _, err := os.Stat(dir + "/a/b.json"); err == nil {
		t.Error("the file is there before the results are")
	}
}

// wantRefused wants a command line refused before anything is started, and the error to say why.
func wantRefused(t *testing.T, cmd *cobra.Command, want string, args ...string) {
	t.Helper()
	if code, _, said := commandLine(t.Context(), cmd, args...); code != cli.ExitUsage || !strings.Contains(said, want) {
		t.Errorf("shop %q: exit %d, %q; want exit %d and %q", args, code, said, cli.ExitUsage, want)
	}
}

// A wrong command line is told with the help of the command that it was meant for.
func TestUsage(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"demo --backnd x": "unknown flag: --backnd (did you mean --backend?)\n",
		"demo --nonsense": "unknown flag: --nonsense\nTry 'shop demo --help'.\n",
		"demo --vus many": "--vus \"many\": want a whole number\nTry 'shop demo --help'.\n",
		"loadtest --wait 10": "--wait \"10\": want a duration with its unit, such as 10s or 500ms\nTry " +
			"'shop loadtest --help'.\n",
		"loadtest --rate x":                    "--rate \"x\": want a number\n",
		"loadtest --request GET --ok-status a": "--ok \"a\": want HTTP statuses",
		"up --no-restart=perhaps":              "want true or false\n",
		"up --port 99999999999999999999":       "64 bits\n",
		"up --port 65536":                      "--port 65536",
		"up --replicas 0":                      "--replicas 0",
		"up --backend docker":                  "--backend docker",
		"up now": "unexpected argument \"now\": shop up takes flags only\nTry 'shop up " +
			"--help'.\n",
		"stock":                             "an argument is missing: want shop stock PRODUCT [UNITS]\n",
		"stock 101 --segments 3":            "--segments and --if-new go with UNITS",
		"stock 101 --if-new":                "--segments and --if-new go with UNITS",
		"stock 101 5 --segments=-1":         "--segments -1: want a number from 0",
		"stock 101 5 --segments -1":         "--segments -1: want a number from 0",
		"stock 101 -20 --if-new":            "--segments and --if-new go with UNITS",
		"-20 stock 101":                     "unknown flag: -2",
		"stock -20":                         "PRODUCT \"-20\": want a number from 1",
		"stock 0":                           "PRODUCT \"0\": want a number from 1",
		"demo --backend docker":             "--backend docker: want auto, embedded or local",
		"modes mutexx":                      "shop: unknown mode \"mutexx\" (did you mean \"mutex\"?)",
		"rolling --rate 0":                  "--rate 0: want more than 0",
		"rolling --rate NaN":                "--rate NaN: want more than 0",
		"rolling --duration 0":              "--duration 0s: want more than 0",
		"rolling --mode=":                   "--mode names no mode",
		"failover":                          "an argument is missing: want shop failover ENGINE\n",
		"failover mongodb":                  "engine \"mongodb\": want one of cluster, sentinel, replicated, galera",
		"failover cluster --strike cut":     "--strike cut: cluster can be struck by kill, stop",
		"failover galera --lag 1ms":         "--lag: the nodes of galera dial each other directly",
		"failover sentinel --lag 2s":        "--lag 2s: want 0 to 1s",
		"failover sentinel --threshold p<1": "no metric \"p\"; there are: gap, engine",
		"up --engine mongodb":               "engine \"mongodb\": want one of",
		"demo --engine cluster --rtt 1ms":   "exclude each other",
		"stock 101 5 6":                     "unexpected argument \"6\": want shop stock",
		"loadtest --request GET":            "want METHOD PATH",
		"demos":                             "Try 'shop --help'.\n",
		"modes --docs x --out y":            "these flags exclude each other: --docs --out\n",
		"settings --docs x --out y":         "these flags exclude each other: --docs --out\n",
		"demo --replicas 0":                 "want 1 to 32",
		"demo --replicas 1000":              "each is a process",
		"demo --lang fr":                    "en or zh",
		"demo --url http://localhost:1 --redis redis://localhost": "exclude each other",
		"demo --stock -1":   "--stock must not be neg",
		"demo --stock 0":    "--stock 0: want more",
		"demo --vus 0":      "--vus 0: want more",
		"demo --requests 0": "--requests 0: want more",
		"demo all":          "chosen with --mode",
		"demo --mode zz*":   `unknown mode "zz*"`,
		"demo --rtt 0":      "--rtt 0s: want more than 0, and at most 1s",
		"demo --rtt -1ms":   "--rtt -1ms: want more than 0",
		"up --rtt 2s":       "--rtt 2s: want more than 0, and at most 1s",
		"up --rtt 1":        "a duration with its unit",
		"demo --rtt 1ms --url http://localhost:1": "leave out --url, whose network has a round trip of " +
			"its own",
		"demo --rtt 1ms --sql sqlite:/nonexistent":                  "leave out --sql",
		"up --rtt 1ms --redis redis://localhost:1":                  "leave out --redis",
		"loadtest --rtt 1ms --mode unsafe --url http://localhost:1": "leave out --url",
		"loadtest --rtt 1ms --request POST/buy":                     "leave out --request",
		"loadtest --durable --mode unsafe --url http://localhost:1": "these flags exclude each other: --durable --url\n",
		"loadtest --plan costs --mode unsafe":                       "sends to one replica: it needs a private stack",
		"loadtest --rtt 1ms --mode zz*":                             `unknown mode "zz*"`,
		"loadtest --rtt 1ms --mode unsafe --replicas 1000":          "each is a process",
		"loadtest --mode x --html -":                                "-o html",
		"lab --random --html x.html":                                "exclude --random, --replay and --tell",
		"lab --replay x.json -o html":                               "exclude --random, --replay and --tell",
		"lab --tell stories --out y.html":                           "these flags exclude each other: --out --tell",
		"lab --docs elsewhere --out y.json":                         "these flags exclude each other: --docs --out",
		"audit --store disk":                                        "disk",
		"audit --url localhost":                                     "localhost",
		"trace nobody":                                              `unknown mode "nobody"`,
		"trace mutexx":                                              `did you mean "mutex"?`,
		"trace set*":                                                "want the name of one mode",
		"trace noop --store sql":                                    "the stores of noop are []",
		"trace unsafe --store sql":                                  `--store sql: the stores of unsafe are ["redis"]`,
		"trace unsafe --quantity 0":                                 "--quantity 0",
		"trace unsafe --quantity 101":                               "--quantity 101",
		"trace unsafe --lang fr":                                    `--lang "fr"`,
		"trace unsafe --backend docker":                             "--backend docker",
		"trace watchdog --hold 31s":                                 "hold_ms: must be between 0 and 30000",
		"trace watchdog --hold 1s --depth 11":                       "depth: must be between 0 and 10",
		"trace lua-lock --hold 1s --depth 1":                        "has no lock that its holder can enter again",
		"trace unsafe --hold 1s":                                    "takes no lock on the product",
		"trace watchdog --rival":                                    "--rival needs --hold",
		"trace watchdog --hold 1s --ttl 10ms":                       "--ttl 10ms",
		"trace kafka --backend local":                               "--backend local: kafka needs Kafka",
		"trace unsafe -o json --stable":                             "--stable goes with the text",
		"trace":                                                     "missing: want shop trace MODE",
		"trace unsafe mutex":                                        `unexpected argument "mutex"`,
		"loadtest --mode mutex --request GET/x":                     "Try 'shop loadtest --help'.\n",
	} {
		wantRefused(t, newRoot("en"), want, strings.Fields(line)...)
	}
	if code, _, errOut := commandLine(t.Context(), newRoot("en"), "lab", "--replay",
		filepath.Join(t.TempDir(), "none.json")); code != cli.ExitUsage || strings.Count(errOut, "\n") != 1 {
		t.Errorf("lab --replay of no file: exit %d, %q, want that and no more", code, errOut)
	}
}

// TestMain lets a copy of the test binary be the program, see [program], or the embedded broker of the traces.
func TestMain(m *testing.M) {
	// a command, such as keeper: never the tests again
	if filepath.Base(os.Args[0]) == "shop" || len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		main()
	}
	_ = os.Setenv("LC_ALL", "C") // the texts that the tests look for are English; the processes that they start inherit it
	code := m.Run()
	closeChromium()
	os.Exit(code)
}

// program returns the path of a shop for processes of its own. In the first tier only [TestUp] starts any.
func program(t *testing.T) string {
	t.Helper()
	testkit.NotQuick(t, "processes of the program")
	return linked(t)
}

// linked gives the test binary the name shop, under which it is the program: nothing is built. The path is the test's
// own, so that it can tell its processes from those of others.
func linked(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	testkit.Must(t, err)
	shop := filepath.Join(t.TempDir(), "shop")
	testkit.Must(t, os.Link(self, shop))
	return shop
}

// runShop runs a command of the shop to its end, and returns what it printed, without its progress, and its exit code.
func runShop(t *testing.T, shop string, args ...string) (out string, code int) {
	t.Helper()
	out, errOut, code := shopSays(t, shop, args...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("shop %q:\n%s", args, errOut)
		}
	})
	return out, code
}

// shopSays is runShop with what the command said on stderr.
func shopSays(t *testing.T, shop string, args ...string) (out, errOut string, code int) {
	t.Helper()
	var printed, said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), shop, args...)
	cmd.Stdout, cmd.Stderr = &printed, &said
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("shop %q: %v", args, err)
	}
	return printed.String(), said.String(), cmd.ProcessState.ExitCode()
}

// startStack starts a stack of the program, which ends with the test.
func startStack(t *testing.T, o stack.Options) *stack.Stack {
	t.Helper()
	o.Binary, o.Log = program(t), t.Logf
	running, err := stack.Start(t.Context(), o)
	testkit.Must(t, err)
	testkit.Closes(t, running)
	return running
}

// The shell completes the values of flags and arguments. In a comma-separated list it offers only the values that are
// not there yet.
func TestCompletions(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][]string{
		"modes ":                          {"noop", "lua-lock"},
		"trace ":                          {"lua-lock"},
		"trace lua-lock --store ":         {"redis", "sql", "etcd"},
		"demo --mode ":                    {"lua-lock"},
		"demo --backend ":                 {"auto", "embedded", "local"},
		"loadtest --mode lua-lock,":       {"lua-lock,fair"},
		"loadtest --plan ":                {"jmeter", "five"},
		"loadtest --engine ":              {"raw", "resty"},
		"lab --mode lua-lock --fault pa":  {"pause"},
		"audit --lang ":                   {"en", "zh"},
		"loadtest --mode lua-lock,fa":     {"lua-lock,fair"},
		"lab --fault pause,cra":           {"pause,crash"},
		"up --mode ":                      {},
		"loadtest --mode lua-lock,lua-lo": {},
	} {
		words := strings.Split(args, " ")
		_, out, _ := commandLine(t.Context(), newRoot("en"), append([]string{"__complete"}, words...)...)
		lines := strings.Split(out, "\n")
		for _, w := range want {
			if !slices.Contains(lines, w) {
				t.Errorf("shop %s<TAB>: %q, want %q among them", args, lines, w)
			}
		}
		if len(want) == 0 && (slices.Contains(lines, "lua-lock") || slices.Contains(lines, "lua-lock,lua-lock")) {
			t.Errorf("shop %s<TAB>: %q, want no mode, or none twice", args, lines)
		}
	}
}

// Every command that users see stands in a section of the help.
func TestCommandsAreGrouped(t *testing.T) {
	t.Parallel()
	for _, cmd := range newRoot("en").Commands() {
		if !cmd.Hidden && cmd.GroupID == "" {
			t.Errorf("shop %s is in no group", cmd.Name())
		}
	}
}

// The same thing ends every command with the same code.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	url := startFakeShop(t, &fakeShop{})
	load := " --url " + url + " --token TOKEN --vus 4 --requests 60 --stock 20 --replicas 1 --quiet --out -"
	nobody := " --url http://127.0.0.1:1"
	for code, lines := range map[int][]string{
		cli.ExitOK: {
			"version", "modes", "settings", "migrate --list", "demo --mode lua-lock" + load, "loadtest --mode unsafe" + load,
		},
		cli.ExitFailed: {
			"demo --mode proud" + load, "loadtest --mode proud" + load, "demo --mode all --token x" + nobody,
			"loadtest --mode all" + nobody,
			"stock 101" + nobody, "audit" + nobody, "rolling" + nobody, "modes --out /dev/null/modes.json",
		},
		cli.ExitUsage: {
			"up --port x", "modes nobody", "loadtest", "loadtest --mode all --plan nobody" + load,
			"audit --product 0", "audit --lang fr", "lab --mode nobody", "lab --fault nobody", "lab --lanes 0",
			"serve --lock-ttl soon", "serve --conns 0 --redis x",
			"serve --redis zz", "migrate --sql zzz",
			"migrate", "migrate --nope", "rolling --backend docker", "settings more", "version --output xml", "nobody",
			"demo --output xml",
			"stock 101 --lang fr", "lab --output csv", "trace unsafe --output csv", "audit --out x.csv",
		},
		exitInconclusive: {"loadtest --mode lua-lock --vus 4 --requests 60 --stock 20 --replicas 3 --token TOKEN --url " +
			url},
		exitThreshold: {"loadtest --mode unsafe --threshold oversold==0" + load},
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
			} else if strings.HasSuffix(line, nobody) && !strings.HasPrefix(line, "loadtest") &&
				strings.Contains(errOut, "loadtest:") {
				t.Errorf("shop %s names another command: %s", line, errOut)
			}
		}
	}
}

// The help of every command ends with the table, and a text of its own names no code that the table lacks.
func TestExitHelp(t *testing.T) {
	t.Parallel()
	known := map[int]bool{}
	for _, x := range exits {
		if known[x.Code] || x.Means.En == "" || x.Means.Zh == "" {
			t.Errorf("exit code %d is listed twice, or without a meaning", x.Code)
		}
		known[x.Code] = true
	}
	named := regexp.MustCompile(`exits? (?:with|code) (\d+)`)
	for _, cmd := range newRoot("en").Commands() {
		_, out, _ := commandLine(t.Context(), newRoot("en"), cmd.Name(), "--help")
		if !cmd.Hidden && !strings.Contains(out, "\nExit codes:\n"+exits.Help("en")) {
			t.Errorf("shop %s --help does not list the exit codes:\n%s", cmd.Name(), out)
		}
		for _, m := range named.FindAllStringSubmatch(cmd.Long, -1) {
			if code, err := strconv.Atoi(m[1]); err != nil || !known[code] {
				t.Errorf("shop %s --help: %q is not in the table", cmd.Name(), m[0])
			}
		}
	}
}
