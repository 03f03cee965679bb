package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lastitem/testkit"
)

// backendsToTry is what the stack tests run on: always the embedded ones, and the real ones where all are installed or,
// by SHOP_TEST_REQUIRE, must be.
func backendsToTry(t *testing.T) []string {
	t.Helper()
	if testing.Short() {
		return []string{Embedded}
	}
	for _, b := range []string{Redis, MySQL, Nginx} {
		if _, err := Find(b); err != nil {
			testkit.Without(t, b, err) // the embedded ones only
			return []string{Embedded}
		}
	}
	return []string{Embedded, Local}
}

// wants skips the test in the first tier, and where the programs are not installed.
func wants(t *testing.T, backends ...string) {
	t.Helper()
	for _, b := range backends {
		testkit.NotQuick(t, b)
		if _, err := Find(b); err != nil {
			testkit.Missing(t, b, err)
		}
	}
}

func TestStartAndClose(t *testing.T) {
	t.Parallel()
	kinds := map[string][]string{
		Embedded: {"embedded miniredis", "embedded SQLite", "built-in round-robin proxy"},
		Local:    {"redis-server ", " (private)", "nginx "},
	}
	for _, backend := range backendsToTry(t) {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			s := startStack(t, Options{
				Replicas: 3, Backend: backend, Only: []string{Redis, MySQL}, Token: "secret", Env: []string{"SHOP_EXTRA=1"},
			})
			for i, sv := range []Service{s.Redis, s.SQL, s.Balancer} {
				if !strings.Contains(sv.Kind, kinds[backend][i]) {
					t.Errorf("%s is %q, want %q", sv.Name, sv.Kind, kinds[backend][i])
				}
			}
			seen := map[string]int{}
			for range 6 {
				env := askEnv(t, s.URL)
				seen[env["SHOP_REPLICA"]]++
				if env["SHOP_REDIS"] != s.Redis.URL || env["SHOP_SQL"] != s.SQL.URL || env["SHOP_ADMIN_TOKEN"] != "secret" ||
					env["SHOP_EXTRA"] != "1" {
					t.Errorf("environment of a replica = %v", env)
				}
			}
			if seen["1"] != 2 || seen["2"] != 2 || seen["3"] != 2 {
				t.Errorf("6 requests went to %v, want 2 to each of 1, 2, 3", seen)
			}
			if info, err := os.Stat(s.Dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("private directory: %v, %v, want mode 0700", info.Mode(), err)
			}
			tr := partsOf(s)
			wantCleanEnd(t, s, tr)
			wantCleanEnd(t, s, tr)
			testkit.Is(t, s.Err(), nil, "Err() after Close")
		})
	}
}

// askEnv returns the environment of the replica that a balancer chooses.
func askEnv(t *testing.T, url string) map[string]string {
	t.Helper()
	res, err := probes.Get(url + "/env")
	testkit.Must(t, err)
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK || res.Header.Get("X-Upstream") == "" {
		t.Errorf("GET /env: %s, X-Upstream %q", res.Status, res.Header.Get("X-Upstream"))
	}
	return parseEnv(t, res.Body)
}

// envOf returns the environment of the replica at an address.
func envOf(t *testing.T, addr string) map[string]string {
	t.Helper()
	body, err := get(t.Context(), addr, "/env")
	testkit.Must(t, err)
	return parseEnv(t, bytes.NewReader(body))
}

func parseEnv(t *testing.T, r io.Reader) (env map[string]string) {
	t.Helper()
	testkit.Must(t, json.NewDecoder(r).Decode(&env))
	return env
}

// TestParentKilled: a kill -9 of whoever started the stack leaves nothing.
func TestParentKilled(t *testing.T) {
	t.Parallel()
	for _, backend := range backendsToTry(t) {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			parent := exec.Command(os.Args[0], "parent", backend)
			parent.Stderr = os.Stderr
			out, err := parent.StdoutPipe()
			testkit.Must(t, err)
			testkit.Must(t, parent.Start())
			var tr traces
			err = json.NewDecoder(out).Decode(&tr)
			_ = parent.Process.Kill()
			_ = parent.Wait()
			testkit.Mustf(t, err, "the parent printed no stack")
			wantNothingLeft(t, tr)
		})
	}
}

// TestParentKilledWhileStarting kills the parent at an arbitrary moment of the start; the directory is looked for by
// name.
func TestParentKilledWhileStarting(t *testing.T) {
	t.Parallel()
	backends := backendsToTry(t)
	tmp := t.TempDir()
	for i, ms := range []int{5, 20, 60, 150, 300, 600} {
		parent := exec.Command(os.Args[0], "parent", backends[i%len(backends)])
		parent.Env = append(os.Environ(), "TMPDIR="+tmp)
		testkit.Must(t, parent.Start())
		time.Sleep(time.Duration(ms) * time.Millisecond) // the moment does not matter
		_ = parent.Process.Kill()
		_ = parent.Wait()
	}
	testkit.NoError(t, "nothing is left", func() error {
		if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
			return fmt.Errorf("there is %v", left)
		}
		return nil
	})
}

// TestKeeperKilled: the keeper ignores what a terminal sends, and a kill -9 of it ends the stack and leaves nothing.
func TestKeeperKilled(t *testing.T) {
	t.Parallel()
	for _, backend := range backendsToTry(t) {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			s := startStack(t, Options{Replicas: 1, Backend: backend, Only: []string{Redis, MySQL}})
			tr := partsOf(s)
			for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
				testkit.Must(t, syscall.Kill(s.procs.keeper.PID, sig))
			}
			askEnv(t, s.URL)
			testkit.Mustf(t, s.Err(), "Err() after SIGINT, SIGTERM, SIGHUP to the keeper")
			_ = syscall.Kill(s.procs.keeper.PID, syscall.SIGKILL)
			wantDied(t, s, "keeper")
			wantNothingLeft(t, tr)
		})
	}
}

// A part that dies ends the stack.
func TestChildKilled(t *testing.T) {
	t.Parallel()
	childKilled(t, Embedded, "redis", "replica 2", "balancer")
}

func TestLocalChildKilled(t *testing.T) {
	testkit.Slow(t, "four stacks of real servers")
	t.Parallel()
	wants(t, Redis, MySQL, Nginx)
	childKilled(t, Local, "redis", "sql", "replica 2", "balancer")
}

func childKilled(t *testing.T, backend string, names ...string) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startStack(t, Options{Replicas: 2, Backend: backend, Only: []string{Redis, MySQL}})
			tr := partsOf(s)
			testkit.Must(t, syscall.Kill(tr.PIDs[name], syscall.SIGKILL))
			wantDied(t, s, name+" has died: signal: killed")
			wantCleanEnd(t, s, tr)
		})
	}
}

func wantDied(t *testing.T, s *Stack, what string) {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("Done() still open after 30 s")
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), what) {
		t.Errorf("Err() = %v, want %q", err, what)
	}
}

// TestStoppedChild: a process that is stopped, as a fault run leaves it, ends as well.
func TestStoppedChild(t *testing.T) {
	t.Parallel()
	s := startStack(t, Options{Replicas: 1, Backend: Embedded, Only: []string{Redis, MySQL}})
	tr := partsOf(s)
	testkit.Must(t, syscall.Kill(tr.PIDs["replica 1"], syscall.SIGSTOP))
	wantCleanEnd(t, s, tr)
}

// TestPortCollision takes the port between the choice and the start, once.
func TestPortCollision(t *testing.T) {
	t.Parallel()
	s := startStack(t, Options{Only: []string{}})
	sv := miniredisServer(&s.opts)
	var stolen net.Listener
	setup := sv.setup
	sv.setup = func(at site) (argv []string, err error) {
		if stolen == nil {
			if stolen, err = net.Listen("tcp", at.addr); err != nil {
				return nil, err
			}
		}
		return setup(at)
	}
	got, err := s.procs.launch(t.Context(), sv)
	if stolen != nil {
		defer func() { _ = stolen.Close() }()
	}
	testkit.Must(t, err)
	if stolen == nil || got.Addr == stolen.Addr().String() {
		t.Errorf("started at %s, want another port than the stolen one", got.Addr)
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	taken := testkit.Listen(t)
	crashing := []string{"SHOP_LISTEN=256.0.0.1:1"}
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"unknown backend", Options{Backend: "docker"}, `backend "docker"`},
		{"negative replicas", Options{Replicas: -1}, "-1 replicas"},
		{"port taken", Options{Replicas: 1, Listen: taken.Addr().String()}, "address already in use"},
		{"unknown part", Options{Only: []string{"cassandra"}}, `unknown backend "cassandra"`},
		{"not the shop", Options{Binary: "/bin/true"}, "is it the shop binary?"},
		{"no such binary", Options{Binary: "/nonexistent/shop"}, "no such file"},
		{"replica crashes", Options{Replicas: 2, Backend: Embedded, Env: crashing},
			"ended before it was ready: exit status 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := Start(t.Context(), c.o)
			if err == nil {
				_ = s.Close()
				t.Fatal("Start() = nil, want an error")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("Start() = %v, want %q", err, c.want)
			}
		})
	}
}

func TestStartCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var dir string
	_, err := Start(ctx, Options{Replicas: 1, Backend: Embedded, Log: func(format string, args ...any) {
		if strings.HasPrefix(format, "sql") {
			dir = filepath.Dir(args[1].(string))
		}
		cancel()
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Start() = %v, want context.Canceled", err)
	}
	if _, err := os.Stat(dir); dir == "" || err == nil {
		t.Errorf("private directory %q is still there", dir)
	}
}

func TestGivenServersAreLeftAlone(t *testing.T) {
	t.Parallel()
	m, err := StartMiniredis("127.0.0.1:0")
	testkit.Must(t, err)
	defer m.Close()
	file := "sqlite:" + filepath.Join(t.TempDir(), "own.db")
	s := startStack(t, Options{Redis: "redis://" + m.Addr(), SQL: file})
	want := Service{Name: "redis", Kind: "given", URL: "redis://" + m.Addr()}
	if s.Redis != want || s.SQL.URL != file || s.SQL.PID != 0 {
		t.Errorf("services = %+v and %+v, want the given ones", s.Redis, s.SQL)
	}
	testkit.Check(t, s.Close())
	if err := answers(t.Context(), m.Addr(), command("PING"), func(line []byte) bool {
		return line[0] == '+'
	}); err != nil {
		t.Errorf("the given Redis after Close: %v", err)
	}
}

// TestMissingPrograms is not parallel: it changes PATH.
func TestMissingPrograms(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("SHOP_ETCD", "http://elsewhere:2379")
	dirs := extraDirs
	extraDirs = nil
	t.Cleanup(func() { extraDirs = dirs })
	for backend, want := range map[string]string{
		Redis: "redis-server", Redlock: "redis-server", MySQL: "mariadb-server", Nginx: "nginx", Etcd: "etcd-server",
		ZooKeeper: "zookeeper",
		Kafka:     "openjdk-17-jre-headless maven, then scripts/real-kafka",
	} {
		if _, err := Find(backend); err == nil || !strings.Contains(err.Error(), "apt-get install "+want) {
			t.Errorf("Find(%s) = %v, want what to install", backend, err)
		}
	}
	if _, err := Find(Consul); err == nil || !strings.Contains(err.Error(), "releases.hashicorp.com") {
		t.Errorf("Find(consul) = %v, want where to get it", err)
	}
	if _, err := Start(t.Context(), Options{Backend: Local}); err == nil ||
		!strings.Contains(err.Error(), "apt-get install") {
		t.Errorf("Start(local) = %v, want what to install", err)
	}
	s := startStack(t, Options{Replicas: 1})
	if s.Redis.Kind != "embedded miniredis" || s.SQL.Kind != "embedded SQLite" ||
		s.Balancer.Kind != "built-in round-robin proxy" {
		t.Errorf("auto without programs = %q, %q, %q, want embedded ones", s.Redis.Kind, s.SQL.Kind, s.Balancer.Kind)
	}
	env := askEnv(t, s.URL)
	for _, name := range []string{"SHOP_REDLOCK", "SHOP_ETCD", "SHOP_ZOOKEEPER", "SHOP_CONSUL"} {
		if value, ok := env[name]; !ok || value != "" {
			t.Errorf("%s without a program = %q, want it empty, whatever this process inherited", name, value)
		}
	}
	if s.Kafka.Kind != "embedded kfake" || env["SHOP_KAFKA"] != s.Kafka.URL {
		t.Errorf("Kafka = %+v, SHOP_KAFKA = %q, want an embedded one", s.Kafka, env["SHOP_KAFKA"])
	}
	_, err := Start(t.Context(), Options{Replicas: 1, All: true})
	for _, want := range []string{
		"mysql: mariadbd or mysqld not found; to install it: apt-get install mariadb-server",
		"redlock: redis-server not found",
		"etcd: etcd not found", "zookeeper: java not found", "consul: consul not found", "releases.hashicorp.com",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start(all) = %v, want %q", err, want)
		}
	}
}

// A store that is installed and does not start is replaced, but neither silently nor without its reason: that of a full
// disk is named. It is not parallel, since it changes the environment.
func TestInsteadOfWhatDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	for name, script := range map[string]string{
		"mariadbd": "echo '10.11.1-MariaDB'",
		"mariadb-install-db": "echo '[ERROR] InnoDB: preallocating 9 bytes failed with error 28'; echo '[ERROR] Aborting'; " +
			"for i in 1 2 3 4 5 6 7 8 9; do echo advertising; done; exit 1",
		"redis-server": "echo '7.0.15'; echo '*** FATAL CONFIG FILE ERROR ***'; exit 1",
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	s := startStack(t, Options{})
	said := strings.Join(s.Instead(), "\n")
	for _, want := range []string{
		"redis is miniredis, not the installed redis-server 7.0.15, which does not start: redis: ",
		"*** FATAL CONFIG FILE ERROR ***",
		"sql is SQLite, not the installed mariadbd, which does not start: sql install: exit status 1: [ERROR] InnoDB: " +
			"preallocating 9 bytes failed with error 28 (no space left on device)",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("Instead() = %q, want %q", said, want)
		}
	}
	t.Setenv("TMPDIR", "/missing") // short: where a long one leaves no room for a socket, /tmp serves
	_, err := Start(t.Context(), Options{Backend: Embedded})
	if err == nil || !strings.Contains(err.Error(), "no private directory can be made: ") ||
		!strings.Contains(err.Error(), "no such file or directory") {
		t.Errorf("Start in a TMPDIR that is not there = %v, want that said", err)
	}
}

// TestGivenPrograms is not parallel: it changes the environment.
func TestGivenPrograms(t *testing.T) {
	program := filepath.Join(t.TempDir(), "some-server")
	testkit.Must(t, os.WriteFile(program, []byte("#!/bin/sh\necho 'Valkey server v=9.1.2 bits=64'\n"), 0o700))
	t.Setenv(EnvProgram+"REDIS", program)
	t.Setenv(EnvProgram+"MYSQL", program+"-missing")
	for _, backend := range []string{Redis, Redlock} {
		if got, err := Find(backend); err != nil || got != program {
			t.Errorf("Find(%s) = %q, %v, want %q", backend, got, err, program)
		}
	}
	testkit.Is(t, redisKind(program), "valkey-server 9.1.2", "redisKind()")
	// A server that was asked for by name is not silently another one.
	if got, err := Find(MySQL); err == nil || !strings.Contains(err.Error(), "SHOP_PROGRAM_MYSQL") {
		t.Errorf("Find(mysql) = %q, %v, want an error that names the variable", got, err)
	}
}

// What the caller says of the server's settings overrides ours.
func TestSQLConfComesLast(t *testing.T) {
	t.Parallel()
	d := &database{conf: []string{"--log-bin=bin", "--sync-binlog=1"}}
	argv := d.argv()
	if got := argv[len(argv)-2:]; !slices.Equal(got, d.conf) {
		t.Errorf("the command line ends with %q, want %q", got, d.conf)
	}
}

// Several servers may be given one slice of lines, also one with room behind its end. Two that append to one file lose
// each other's data, and at times do not start.
func TestRedisConf(t *testing.T) {
	t.Parallel()
	lines := []string{"appendonly yes", "maxmemory 1mb", "the caller's own"}
	at := site{addr: "127.0.0.1:1", dir: t.TempDir()}
	seen := map[string]string{}
	for _, name := range []string{Redis, redlockName(0), redlockName(1)} {
		argv, err := redisServer("redis-server", name, "", &Options{RedisConf: lines[:2]}).setup(at)
		testkit.Must(t, err)
		conf := testkit.Read(t, argv[1])
		if name == Redis && !strings.HasSuffix(string(conf), "\nappendonly yes\nmaxmemory 1mb\n") ||
			lines[2] != "the caller's own" {
			t.Errorf("redis.conf ends without the lines, or what is behind their end became %q:\n%s", lines[2], conf)
		}
		_, line, _ := strings.Cut(string(conf), "\ndir ")
		dir, _, _ := strings.Cut(line, "\n")
		if other, ok := seen[dir]; ok || dir == "" {
			t.Errorf("%q keeps its data in %s, as does %q", name, dir, other)
		}
		seen[dir] = name
	}
}
