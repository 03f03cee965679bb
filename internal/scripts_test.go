package internal_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/testkit"
)

// script returns the command of a script of the repository.
func script(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		testkit.Missing(t, "bash", err)
	}
	return exec.CommandContext(t.Context(), "../"+name, args...)
}

// writeProgram writes a shell script that is executed soon. No test may fork meanwhile: its child would hold the file
// open for a moment, and a file that is open for writing cannot be executed (ETXTBSY, https://go.dev/issue/22315).
func writeProgram(t *testing.T, file, body string) string {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	testkit.Must(t, os.WriteFile(file, []byte("#!/bin/sh\n"+body), 0o755))
	return file
}

// What macOS lacks: its bash is 3.2, and its mv and tar are not GNU's.
var onlyNewer = map[string]*regexp.Regexp{
	"mapfile, of bash 4":                            regexp.MustCompile(`\b(mapfile|readarray)\b`),
	"an index from the end, of bash 4.3":            regexp.MustCompile(`\[-1\]`),
	"mv -T, of GNU":                                 regexp.MustCompile(`\bmv -T\b`),
	"tar --ignore-failed-read, of GNU":              regexp.MustCompile(`--ignore-failed-read`),
	"GNU's timeout, without a check that it exists": regexp.MustCompile(`(?m)&& timeout \d|^ *timeout \d`),
	"'}' after a command of sed, without a ';'":     regexp.MustCompile(`sed -n '[^']*\{s/[^']*/p\}'`),
	"an array that may be empty, under set -u":      regexp.MustCompile(`[^+]"\$\{(module|race|older|found|skipped|stacks|limit)\[@\]\}"`),
}

func TestScriptsRunOnMacOS(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../scripts/*")
	if err != nil || len(files) < 10 {
		t.Fatalf("scripts: %q, %v", files, err)
	}
	for _, file := range files {
		text := testkit.Read(t, file)
		for what, pattern := range onlyNewer {
			if found := pattern.Find(text); found != nil {
				t.Errorf("%s has %s: %s", file, what, found)
			}
		}
	}
}

// A name that no example has is refused, before anything is looked for.
func TestExamplesUnknownName(t *testing.T) {
	t.Parallel()
	cmd := script(t, "scripts/examples", "redsync", "redsyncc")
	out, err := cmd.CombinedOutput()
	const want = "examples: no example 'redsyncc': there are redis-py-flask redsync redisson flask-psycopg " +
		"vendure django-oscar spring\n"
	if e := (*exec.ExitError)(nil); !errors.As(err, &e) || e.ExitCode() != 2 || string(out) != want {
		t.Errorf("scripts/examples redsyncc: %v, %q, want exit 2 and %q", err, out, want)
	}
}

// The newer servers start in a cache whose path has a space, with an argument that has one.
func TestNewerServersQuoteTheirCache(t *testing.T) {
	t.Parallel()
	sources, _ := filepath.Glob("/etc/apt/sources.list*")
	if _, err := os.Stat("/usr/share/keyrings/debian-archive-keyring.gpg"); err != nil || sources == nil {
		testkit.Missing(t, "debian", errors.New("no sources or keyring of apt"))
	}
	dir := t.TempDir()
	// apt-get downloads one package, and dpkg-deb unpacks from it a loader that prints its arguments, a line each.
	writeProgram(t, dir+"/bin/apt-get", `for a; do case $a in Dir::Cache=*) : >"${a#*=}/archives/all.deb" ;; esac; done`)
	writeProgram(t, dir+"/bin/dpkg-deb", `mkdir -p "$3/lib" "$3/usr/sbin"
cp "$(dirname "$0")/loader" "$3/lib/ld-linux-x86-64.so.2"
for f in lib/libc.so.6 usr/sbin/mysqld usr/sbin/redis-server usr/sbin/valkey-server; do : >"$3/$f"; done`)
	writeProgram(t, dir+"/bin/loader", `printf '%s\n' "$@"`)
	cmd := script(t, "scripts/newer-servers")
	cmd.Env = append(os.Environ(), "PATH="+dir+"/bin:"+os.Getenv("PATH"), "XDG_CACHE_HOME="+dir+"/a cache")
	out, err := cmd.Output()
	if e := (*exec.ExitError)(nil); errors.As(err, &e) && strings.Contains(string(e.Stderr), "no Debian mirror") {
		testkit.Missing(t, "debian", errors.New(strings.TrimSpace(string(e.Stderr))))
	} else if err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), strings.TrimSpace(string(out))+"/mysqld", "--defaults-file=/a b",
		"--port=1 2").Output()
	root := dir + "/a cache/lastitem/newer/root"
	want := []string{
		"--library-path", root + "/lib", root + "/usr/sbin/mysqld", "--defaults-file=/a b",
		"--basedir=" + root + "/usr", "--lc-messages-dir=" + root + "/usr/share/mysql", "--port=1 2",
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(string(said)), "\n")); err != nil || diff != "" {
		t.Errorf("mysqld is started with (-want +got): %v\n%s", err, diff)
	}
}

// measured is what a measuring program writes; nulls are unknown.
const measured = `{
  "scenarios": [
    {
      "name": "hot",
      "results": [
        {
          "contender": "fair",
          "median": {
            "acquisitions_per_s": 250.5,
            "errors": 0,
            "wait_p99_ms": null
          },
          "rounds": [
            {
              "acquisitions_per_s": 17
            }
          ]
        },
        {
          "contender": "handoff",
          "median": {
            "p50_ms": 0.5
          }
        },
        {
          "contender": "watchdog",
          "median": {}
        }
      ]
    }
  ]
}
`

// versus runs scripts/bench-versus over builds that write this, for locks or for these modes; the one that is named in
// breaks fails. It returns what benchstat was given, and the order of the builds with all that was said.
func versus(t *testing.T, json, breaks, modes string) (given, said string, err error) {
	t.Helper()
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(dir+"/json", []byte(json), 0o600))
	writeProgram(t, dir+"/bin/git", `[ $2 = remove ] || mkdir "$5"`)
	writeProgram(t, dir+"/bin/go", `if [ $1 = build ]; then cp measure "$9"; exit; fi
cat out/bench-versus-old.txt; echo; cat out/bench-versus-new.txt`)
	writeProgram(t, dir+"/measure", `name=${SHOP_BINARY:-$0}
echo "${name##*/}" >>order
for file; do :; done
[ "${name##*/}" != "$BREAKS" ] || { echo no redis-server >&2; exit 3; }
[ "$file" = bench ] && cat json || cp json "$file"`)
	testkit.Must(t, os.Mkdir(dir+"/tmp", 0o700))
	path, err := filepath.Abs("../scripts/bench-versus")
	testkit.Must(t, err)
	cmd := exec.CommandContext(t.Context(), path, "HEAD~", "2")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+"/bin:"+os.Getenv("PATH"), "TMPDIR="+dir+"/tmp", "BREAKS="+breaks,
		"MODES="+modes, "SHOP_BINARY=")
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if left, _ := filepath.Glob(dir + "/tmp/*"); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
	return string(out), string(testkit.Read(t, dir+"/order")) + errOut.String(), err
}

// The two builds take turns at going first. Unknown figures are left out. A failing build ends the comparison.
func TestBenchVersus(t *testing.T) {
	t.Parallel()
	given, said, err := versus(t, measured, "", "")
	window := "Benchmark/scenario=hot/lock=fair 1 250.5 acquisitions_per_s 0 errors\n" +
		"Benchmark/scenario=hot/lock=handoff 1 0.5 p50_ms\n"
	if want := window + window + "\n" + window + window; err != nil || given != want {
		t.Errorf("%v, benchstat is given\n%swant\n%s%s", err, given, want, said)
	}
	if !strings.HasPrefix(said, "old\nnew\nnew\nold\n") {
		t.Errorf("not in turn:\n%s", said)
	}
	const line = "BenchmarkDeduct/mode=queue/plan=direct 7 1 ns/op 5 answers/s\n"
	given, said, err = versus(t, "goos: linux\n"+line+"# queue: claims exact\n", "", "queue")
	if err != nil || given != line+line+"\n"+line+line || !strings.HasPrefix(said, "old\nnew\nnew\nold\n") {
		t.Errorf("of modes: %v, benchstat is given\n%s%s", err, given, said)
	}
	for _, test := range []struct {
		json, breaks, modes string
		code                int
		want                string
	}{
		{measured, "new", "", 3, "no redis-server"}, {"{}\n", "", "", 1, "old measured nothing"},
		{line, "new", "queue", 3, "no redis-server"}, {"goos: linux\n", "", "queue", 1, "old measured nothing"},
	} {
		_, said, err := versus(t, test.json, test.breaks, test.modes)
		if e := (*exec.ExitError)(nil); !errors.As(err, &e) || e.ExitCode() != test.code ||
			!strings.Contains(said, test.want) {
			t.Errorf("%v, %s, want exit code %d and %q", err, said, test.code, test.want)
		}
	}
}
