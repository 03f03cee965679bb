package deploy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"

	"lastitem/contract/api"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

const composeFile = "../docker-compose.yml"

// composed is what the tests read of docker-compose.yml.
type composed struct {
	Services map[string]service `yaml:"services"`
}

type service struct {
	Image       string            `yaml:"image"`
	Profiles    []string          `yaml:"profiles"`
	Restart     string            `yaml:"restart"`
	Ports       []string          `yaml:"ports"`
	Environment map[string]string `yaml:"environment"`
	Command     any               `yaml:"command"`
	DependsOn   map[string]any    `yaml:"depends_on"`
	Memory      string            `yaml:"mem_limit"`
	CPUs        string            `yaml:"cpus"`
	PIDs        int               `yaml:"pids_limit"`
	Healthcheck struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
}

// profiles are the services of each, and what the shops are told when it is on.
var profiles = map[string]struct {
	services []string
	address  string
}{
	"redlock": {
		[]string{"redlock-1", "redlock-2", "redlock-3", "redlock-4", "redlock-5"},
		"redis://redlock-1:6379,redis://redlock-2:6379,redis://redlock-3:6379,redis://redlock-4:6379,redis://redlock-5:6379",
	},
	"etcd":      {[]string{"etcd"}, "http://etcd:2379"},
	"zookeeper": {[]string{"zookeeper"}, "zookeeper:2181"},
	"consul":    {[]string{"consul"}, "http://consul:8500"},
	"kafka":     {[]string{"kafka"}, "kafka:9092"},
	"observe":   {[]string{"prometheus", "grafana", "jaeger"}, "http://jaeger:4318"},
	"cluster": {
		[]string{"cluster-1", "cluster-2", "cluster-3", "cluster-4", "cluster-5", "cluster-6"},
		"redis://:geheim@cluster-1:6379,redis://:geheim@cluster-2:6379,redis://:geheim@cluster-3:6379",
	},
	"sentinel": {
		[]string{"redis-1", "redis-2", "redis-3", "sentinel-1", "sentinel-2", "sentinel-3"},
		"redis+sentinel://:geheim@sentinel-1:26379,sentinel-2:26379,sentinel-3:26379/mymaster/0?sentinel_password=geheim",
	},
}

// inAll are the profiles that PROFILES=all stands for: no other Redis in place of the one.
var inAll = []string{"redlock", "etcd", "zookeeper", "consul", "kafka", "observe"}

// variable is the setting of the shops that a profile writes.
func variable(profile string) string {
	if profile == "observe" {
		return "OTEL_EXPORTER_OTLP_ENDPOINT"
	}
	return "SHOP_" + strings.ToUpper(profile)
}

func readCompose(t *testing.T, text string) composed {
	t.Helper()
	var c composed
	testkit.Must(t, yaml.Unmarshal([]byte(text), &c))
	return c
}

// composeSets are the settings of a replica that depend on the other services, or on which the console depends.
var composeSets = []string{"SHOP_LISTEN", "SHOP_REPLICA", "SHOP_ADMIN_TOKEN", "SHOP_EVENTS", "SHOP_REDIS", "SHOP_SQL",
	"SHOP_MISSING"}

// replicaSettings are the variables that a replica reads, and those of OpenTelemetry's that the settings list one by
// one.
func replicaSettings(t *testing.T) []string {
	t.Helper()
	all := []string{"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"}
	for _, m := range regexp.MustCompile(`\benv:"([A-Z_]+)"`).FindAllStringSubmatch(read(t,
		"../internal/replica/config.go"), -1) {
		all = append(all, m[1])
	}
	if len(all) < 30 {
		t.Fatalf("config.go has only the settings %q", all)
	}
	return all
}

// composeRule holds for each service whose name matches of, and refuses each of the mutants.
type composeRule struct {
	name, of string
	ok       func(name string, s service) bool
	mutants  [][2]string
}

// composeRules are what docker-compose.yml may not lose.
func composeRules(t *testing.T) []composeRule {
	t.Helper()
	settings, profileOf := replicaSettings(t), map[string]string{}
	for profile, p := range profiles {
		for _, name := range p.services {
			profileOf[name] = profile
		}
	}
	return []composeRule{
		{"what only some modes need is in a profile", ".", func(name string, s service) bool {
			return strings.Join(s.Profiles, ",") == profileOf[name]
		}, [][2]string{
			{"    profiles: [etcd]\n", ""},
			{"    profiles: [consul]\n", "    profiles: [consul, kafka]\n"},
		}},
		{"it starts again, and says whether it is well", ".", func(_ string, s service) bool {
			return s.Restart != "" && s.Image != "" && len(s.Healthcheck.Test) > 1
		}, [][2]string{{"  restart: unless-stopped\n", ""}}},
		{"it cannot take the machine down", ".", func(_ string, s service) bool {
			return s.Memory != "" && s.CPUs != "" && s.PIDs > 0
		}, [][2]string{{"    mem_limit: 512m\n", ""}, {"  pids_limit: 1024\n", ""}}},
		{"no health check starts a JVM", ".", func(_ string, s service) bool {
			return !strings.Contains(fmt.Sprint(s.Healthcheck.Test), "kafka-")
		}, [][2]string{{`bash, -c, 'exec 3<>/dev/tcp/127.0.0.1/9092'`, `/opt/kafka/bin/kafka-broker-api-versions.sh`}}},
		{"only nginx, Grafana and Jaeger are published, on loopback", ".", func(name string, s service) bool {
			return (len(s.Ports) == 1 && strings.HasPrefix(s.Ports[0], "127.0.0.1:")) ==
				slices.Contains([]string{"nginx", "grafana", "jaeger"}, name) && len(s.Ports) < 2
		}, [][2]string{
			{"    profiles: [zookeeper]\n", "    profiles: [zookeeper]\n    ports: [\"127.0.0.1:2181:2181\"]\n"},
			{`"127.0.0.1:${SHOP_GRAFANA_PORT:-3000}:3000"`, `"3000:3000"`},
		}},
		{"it waits for nothing that only a profile starts", ".", func(_ string, s service) bool {
			for other := range s.DependsOn {
				if profileOf[other] != "" {
					return false
				}
			}
			return true
		}, [][2]string{{
			"    mysql: {condition: service_healthy}\n",
			"    mysql: {condition: service_healthy}\n    etcd: {condition: service_healthy}\n",
		}}},
		{"a page of another site cannot use the published port (DNS rebinding)", "shop-", func(_ string, s service) bool {
			return s.Environment["SHOP_HOSTS"] == "${SHOP_HOSTS:-localhost}"
		}, [][2]string{{"  SHOP_HOSTS: ${SHOP_HOSTS:-localhost}", "  SHOP_HOSTS: ${SHOP_HOSTS:-}"}}},
		{".env reaches a replica, except for what Compose itself sets", "shop-", func(_ string, s service) bool {
			return !slices.ContainsFunc(settings, func(setting string) bool {
				value, ok := s.Environment[setting]
				return !ok || strings.HasPrefix(value, "${"+setting+":-") == slices.Contains(composeSets, setting)
			})
		}, [][2]string{
			{"  SHOP_PROTECT_READS: ${SHOP_PROTECT_READS:-}\n", ""},
			{"  SHOP_CONNS: ${SHOP_CONNS:-}\n", "  SHOP_CONNS: \"64\"\n"},
			{"  OTEL_TRACES_SAMPLER: ${OTEL_TRACES_SAMPLER:-}\n", ""},
			{"SHOP_KAFKA: ${SHOP_KAFKA:-}", "SHOP_KAFKA: kafka:9092"},
		}},
		{"the console sees what happens", "shop-", func(_ string, s service) bool {
			return s.Environment["SHOP_EVENTS"] == "true"
		}, [][2]string{{"  SHOP_EVENTS: \"true\"", "  SHOP_EVENTS: \"false\""}}},
		{"a replica advises the profile of what is missing", "shop-", func(_ string, s service) bool {
			advice, want := map[string]string{}, map[string]string{}
			for _, profile := range inAll[:5] { // no mode needs observe
				want[profile] = "add " + profile + " to the PROFILES of make up"
			}
			return json.Unmarshal([]byte(s.Environment["SHOP_MISSING"]), &advice) == nil && maps.Equal(advice, want)
		}, [][2]string{{`"add etcd to`, `"add kafka to`}, {`, "consul": "`, `, "console": "`}}},
		{"etcd forgets the history of keys", "etcd", func(_ string, s service) bool {
			return s.has("--auto-compaction-mode=periodic", "--auto-compaction-retention=5m")
		}, [][2]string{{"      - --auto-compaction-mode=periodic\n", ""}}},
		{"the console loads nginx, reads each replica, serves the shops' names", "console", func(_ string, s service) bool {
			return s.has("console", "--url=http://nginx", "--host=${SHOP_HOSTS:-localhost}",
				"--replica=http://shop-1:8080", "--replica=http://shop-2:8080", "--replica=http://shop-3:8080")
		}, [][2]string{
			{"      - --replica=http://shop-3:8080\n", ""},
			{"      - --url=http://nginx\n", ""},
			{"--host=${SHOP_HOSTS:-localhost}", "--host=localhost"},
		}},
		{"the console has the token, and nothing of a store", "console", func(_ string, s service) bool {
			return slices.Equal(slices.Sorted(maps.Keys(s.Environment)), []string{"GOMEMLIMIT", "SHOP_ADMIN_TOKEN"})
		}, [][2]string{{"      GOMEMLIMIT: 320MiB\n", "      SHOP_SQL_PASSWORD: x\n"}}},
		{"nginx finds the console, and does not wait until it is healthy", "nginx", func(_ string, s service) bool {
			return fmt.Sprint(s.DependsOn["console"]) == "map[condition:service_started]"
		}, [][2]string{{"console: {condition: service_started}", "console: {condition: service_healthy}"}}},
	}
}

// has says whether a command is written as a list, with these arguments among others.
func (s service) has(arguments ...string) bool {
	all, _ := s.Command.([]any)
	return !slices.ContainsFunc(arguments, func(a string) bool { return !slices.Contains(all, any(a)) })
}

// breaks returns the services that break a rule.
func (c composed) breaks(rule composeRule) (wrong []string) {
	of := regexp.MustCompile("^" + rule.of)
	for name, s := range c.Services {
		if of.MatchString(name) && !rule.ok(name, s) {
			wrong = append(wrong, name)
		}
	}
	return wrong
}

func TestCompose(t *testing.T) {
	text := read(t, composeFile)
	c := readCompose(t, text)
	want := []string{"redis", "mysql", "shop-1", "shop-2", "shop-3", "console", "nginx"}
	for _, p := range profiles {
		want = append(want, p.services...)
	}
	slices.Sort(want)
	testkit.Same(t, slices.Sorted(maps.Keys(c.Services)), want, "the services of docker-compose.yml")
	for _, rule := range composeRules(t) {
		if wrong := c.breaks(rule); wrong != nil {
			t.Errorf("%s break the rule: %s", wrong, rule.name)
		}
		for _, m := range rule.mutants {
			mutant := strings.Replace(text, m[0], m[1], 1)
			if mutant == text || readCompose(t, mutant).breaks(rule) == nil {
				t.Errorf("%q in place of %q changes nothing, or is accepted by the rule: %s", m[1], m[0], rule.name)
			}
		}
	}
}

// Compose itself reads the file, where it is installed.
func TestComposeReadsItsFile(t *testing.T) {
	t.Parallel()
	docker := testenv.Program(t, "docker", "docker.io")
	if err := exec.CommandContext(t.Context(), docker, "compose", "version").Run(); err != nil {
		testkit.Missing(t, "compose", fmt.Errorf("apt-get install docker-compose-v2: %w", err))
	}
	cmd := exec.CommandContext(t.Context(), docker, "compose", "--file", composeFile, "config", "--quiet")
	cmd.Env = append(os.Environ(), "COMPOSE_PROFILES="+everyProfile, "SHOP_ADMIN_TOKEN=a",
		"SHOP_REDIS_PASSWORD=b", "SHOP_SQL_PASSWORD=c", "SHOP_REDIS=d")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("docker compose config: %v\n%s", err, out)
	}
}

// Redis starts with, and the runbooks advise, a maxmemory that leaves room in its container for a rewrite of the
// append-only file.
func TestRedisMemory(t *testing.T) {
	redis := readCompose(t, read(t, composeFile)).Services["redis"]
	limit := atoi(strings.TrimSuffix(redis.Memory, "m"))
	for where, text := range map[string]string{
		"docker-compose.yml": fmt.Sprint(redis.Command),
		"runbook.md":         read(t, "../docs/runbook.md"), "runbook.zh.md": read(t, "../docs/runbook.zh.md"),
	} {
		found := regexp.MustCompile(`maxmemory (\d+)mb`).FindAllStringSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("%s says nothing of maxmemory", where)
		}
		for _, m := range found {
			if mb := atoi(m[1]); mb <= 0 || mb > limit*3/4 {
				t.Errorf("%s: %s in a container with %d MiB, want at most three quarters", where, m[0], limit)
			}
		}
	}
}

// generated are the settings that make up makes by itself.
var generated = []string{"SHOP_PORT", "SHOP_ADMIN_TOKEN", "SHOP_REDIS_PASSWORD", "SHOP_SQL_PASSWORD", "SHOP_NET",
	"SHOP_REDIS", "COMPOSE_PROJECT_NAME"}

// fakeDocker stands in for docker: it notes what it is asked, with the profiles that are on, and every container is
// healthy.
const fakeDocker = `#!/bin/sh
echo "[$COMPOSE_PROFILES] $*" >>"$CALLS"
case "$*" in
  'compose ps -q '*) if grep -q -- "--force-recreate $4" "$CALLS"; then echo "new-$4"; else echo "id-of-$4"; fi ;;
  'inspect '*) echo healthy ;;
  'compose build '*) echo "built of $GIT_COMMIT" >>"$CALLS" ;;
  'compose up -d --no-deps '*) echo "cpus: $SHOP_CPUS" >>"$CALLS" ;;
  'compose up -d') [ -z "$NO_IMAGES" ] ;;
  'ps -a --filter '*) printf "$PLACES\n" ;;
  'info -f {{.NCPU}}') echo "${NCPU:-2}" ;;
  'volume inspect '*) [ -n "$OLD_VOLUME" ] ;;
esac
`

// composeScript is a copy of scripts/compose beside a fake docker, in a directory of its own.
type composeScript struct {
	t         *testing.T
	dir, port string
}

func newComposeScript(t *testing.T) composeScript {
	t.Helper()
	var asked atomic.Int64
	nginx := testkit.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(api.HeaderReplica, fmt.Sprint(asked.Add(1)%3+1))
		_, _ = io.WriteString(w, "ready")
	}))
	s := composeScript{t: t, dir: t.TempDir(), port: nginx.URL[strings.LastIndex(nginx.URL, ":")+1:]}
	writePrograms(t, s.dir, map[string]string{
		"scripts/compose": read(t, "../scripts/compose"), "scripts/commit": "#!/bin/sh\necho 0123456789ab\n",
		"bin/docker": fakeDocker,
	})
	return s
}

// writePrograms writes files that are executed soon. No test may fork meanwhile: its child would hold a file open for
// a moment, and a file that is open for writing cannot be executed (ETXTBSY, https://go.dev/issue/22315).
func writePrograms(t *testing.T, dir string, programs map[string]string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for name, text := range programs {
		file := filepath.Join(dir, name)
		testkit.Must(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o755)))
	}
}

// run runs the script and returns what it said, the lines of .env and what docker was asked.
func (s composeScript) run(command string, env ...string) (said string, settings map[string]string, calls string,
	err error) {
	s.t.Helper()
	log := filepath.Join(s.dir, "calls")
	testkit.Must(s.t, os.WriteFile(log, nil, 0o600))
	cmd := exec.CommandContext(s.t.Context(), s.dir+"/scripts/compose", command)
	cmd.Env = append([]string{"PATH=" + s.dir + "/bin:/usr/bin:/bin", "CALLS=" + log, "SHOP_PORT=" + s.port}, env...)
	out, err := cmd.CombinedOutput()
	settings = map[string]string{}
	text, _ := os.ReadFile(filepath.Join(s.dir, ".env"))
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !slices.Contains(generated, name) {
			settings[name] = value
		}
	}
	return string(out), settings, read(s.t, log), err
}

// want fails unless the script goes well, leaves these settings, and asks docker for each of the calls.
func (s composeScript) want(settings map[string]string, calls []string, command string, env ...string) {
	s.t.Helper()
	said, got, asked, err := s.run(command, env...)
	if err != nil {
		s.t.Fatalf("scripts/compose %s %q: %v\n%s", command, env, err, said)
	}
	testkit.Same(s.t, got, settings, "scripts/compose %s %q: .env", command, env)
	for _, call := range calls {
		if !strings.Contains(asked, call+"\n") {
			s.t.Errorf("scripts/compose %s %q does not ask for %q:\n%s", command, env, call, asked)
		}
	}
}

const everyProfile = "redlock,etcd,zookeeper,consul,kafka,observe,cluster,sentinel"

// downCall removes everything, whichever profiles are on.
const downCall = "[" + everyProfile + "] compose down --volumes --remove-orphans"

// make up PROFILES=... writes the profiles and what the shops are told to .env, where they stay until others are
// chosen, beside what the user has written there.
func TestComposeProfiles(t *testing.T) {
	t.Parallel()
	s := newComposeScript(t)
	s.want(map[string]string{}, []string{"[] compose up -d"}, "up")
	two := map[string]string{
		"COMPOSE_PROFILES": "etcd,redlock", "SHOP_ETCD": profiles["etcd"].address,
		"SHOP_REDLOCK": profiles["redlock"].address,
	}
	calls := []string{
		"[etcd,redlock] compose up -d",
		"[etcd,redlock] inspect -f {{if .State.Health}}{{.State.Health.Status}}{{else}}{{.State.Status}}{{end}} " +
			"id-of-redlock-5",
	}
	s.want(two, calls, "up", "PROFILES=etcd redlock")
	s.want(two, calls, "up")
	s.want(two, []string{"[etcd,redlock] compose logs"}, "logs")
	s.want(two, []string{downCall}, "down")
	all := map[string]string{"COMPOSE_PROFILES": strings.Join(inAll, ",")}
	none := map[string]string{"COMPOSE_PROFILES": ""}
	for _, name := range inAll {
		all[variable(name)], none[variable(name)] = profiles[name].address, ""
	}
	s.want(all, []string{"[redlock,etcd,zookeeper,consul,kafka,observe] compose up -d"}, "up", "PROFILES=all")
	s.want(none, []string{"[] compose up -d", "[" + everyProfile + "] compose rm --stop --force -v kafka"}, "up",
		"PROFILES=none")

	own := newComposeScript(t) // an address of the user's own
	testkit.Must(t, os.WriteFile(own.dir+"/.env", []byte("SHOP_ETCD=https://etcd.example:2379\n"), 0o600))
	own.want(map[string]string{"SHOP_ETCD": "https://etcd.example:2379", "COMPOSE_PROFILES": "kafka",
		"SHOP_KAFKA": "kafka:9092"}, nil, "up", "PROFILES=kafka")
}

// The profiles cluster and sentinel replace the one Redis, each alone, and not an address of the user's own.
func TestComposeRedis(t *testing.T) {
	t.Parallel()
	s := newComposeScript(t)
	for i, c := range []struct{ profiles, own, want string }{
		{"cluster", "", profiles["cluster"].address},
		{"sentinel", "", profiles["sentinel"].address},
		{"none", "", "redis://:geheim@redis:6379/0"},
		{"cluster", "rediss://redis.example:6379", "rediss://redis.example:6379"},
	} {
		env := []string{"SHOP_REDIS_PASSWORD=geheim", "PROFILES=" + c.profiles}
		if c.own != "" {
			testkit.Must(t, os.WriteFile(s.dir+"/.env", []byte("SHOP_REDIS="+c.own+"\n"), 0o600))
		}
		said, _, _, err := s.run("up", env...)
		if got := read(t, s.dir+"/.env"); err != nil || !strings.Contains(got, "SHOP_REDIS="+c.want+"\n") {
			t.Errorf("%q: %v, want SHOP_REDIS=%s in .env\n%s\n%s", env, err, c.want, got, said)
		}
		testkit.Is(t, strings.Contains(said, "another one than before"), i == 1 || i == 2, "%q says that it is empty", env)
	}
	if said, _, _, err := s.run("up", "PROFILES=sentinel cluster"); err == nil || !strings.Contains(said, "not both") {
		t.Errorf("two Redis at once: %v\n%s", err, said)
	}
}

// scripts/compose roll replaces one replica after the other, then the console, and nothing else; an image that was
// named is not built.
func TestComposeRolls(t *testing.T) {
	t.Parallel()
	s := newComposeScript(t)
	if said, _, _, err := s.run("roll"); err == nil || !strings.Contains(said, "is the stack up? make up") {
		t.Errorf("roll of nothing: %v\n%s", err, said)
	}
	changes := regexp.MustCompile(`(?m)^\[\] compose (up|build).*$`)
	for _, c := range []struct {
		command, image string
		want           []string
	}{
		{"up", "", []string{"build shop-1", "up -d"}},
		{"up", "shop:1", []string{"up -d"}},
		{"roll", "shop:2", []string{"up -d --no-deps --force-recreate shop-1", "up -d --no-deps --force-recreate shop-2",
			"up -d --no-deps --force-recreate shop-3", "up -d --no-deps --force-recreate console"}},
	} {
		said, _, calls, err := s.run(c.command, "SHOP_IMAGE="+c.image)
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.command, err, said)
		}
		var want []string
		for _, call := range c.want {
			want = append(want, "[] compose "+call)
		}
		if built := strings.Contains(calls, "built of 0123456789ab\n"); built != slices.Contains(c.want, "build shop-1") {
			t.Errorf("%s: an image was built with its commit: %t\n%s", c.command, built, calls)
		}
		testkit.Same(t, changes.FindAllString(calls, -1), want, "SHOP_IMAGE=%s scripts/compose %s", c.image, c.command)
	}
}

// A project that runs from another directory is not touched: its data would go. If that directory is gone, the project
// is nobody's.
func TestComposeOfAnotherDirectory(t *testing.T) {
	t.Parallel()
	s := newComposeScript(t)
	other := t.TempDir()
	for _, command := range []string{"up", "roll", "down"} {
		said, settings, calls, err := s.run(command, "PLACES="+s.dir+"\n"+other)
		if err == nil || !strings.Contains(said, "belongs to the clone in "+other) || strings.Contains(calls, "compose up") ||
			strings.Contains(calls, "compose down") || len(settings) > 0 {
			t.Errorf("%s beside the stack of %s: %v, .env has %v\n%s%s", command, other, err, settings, said, calls)
		}
		if _, err := os.Stat(filepath.Join(s.dir, ".env")); err == nil {
			t.Errorf("%s beside the stack of %s has written .env", command, other)
		}
	}
	for _, place := range []string{s.dir, other + "/gone", ""} {
		s.want(map[string]string{}, []string{"[] compose up -d"}, "up", "PLACES="+place)
		s.want(map[string]string{}, []string{downCall}, "down", "PLACES="+place)
	}
}

// Docker refuses a limit of more processors than it has, in every command.
func TestComposeOnOneProcessor(t *testing.T) {
	t.Parallel()
	s := newComposeScript(t)
	s.want(map[string]string{}, nil, "up")
	s.want(map[string]string{}, []string{"cpus: 1"}, "roll", "NCPU=1")
	s.want(map[string]string{}, []string{"cpus: "}, "roll")
	s.want(map[string]string{}, []string{"cpus: 3"}, "roll", "NCPU=1", "SHOP_CPUS=3")
}

// A profile that there is not is refused before Docker is asked, and before anything is written.
func TestComposeUnknownProfile(t *testing.T) {
	t.Parallel()
	const want = "no profile 'cassandra': there are redlock etcd zookeeper consul kafka observe cluster sentinel, " +
		"or all, or none"
	for _, docker := range []string{fakeDocker, "#!/bin/sh\nexit 1\n"} {
		s := newComposeScript(t)
		writePrograms(t, s.dir, map[string]string{"bin/docker": docker})
		for _, list := range []string{"kafka,cassandra", "cassandra all", "all cassandra", "etcd  cassandra "} {
			said, settings, calls, err := s.run("up", "PROFILES="+list)
			_, written := os.Stat(filepath.Join(s.dir, ".env"))
			if err == nil || !strings.Contains(said, want) || written == nil || calls != "" {
				t.Errorf("PROFILES=%q: %v, %s, .env %v, docker was asked %q; want %q alone", list, err, said, settings, calls, want)
			}
		}
	}
}

// Profiles whose images cannot be had are not remembered: a plain make up works as before.
func TestComposeForgetsFailedProfiles(t *testing.T) {
	t.Parallel()
	s := newComposeScript(t)
	s.want(map[string]string{}, nil, "up")
	if said, settings, _, err := s.run("up", "PROFILES=all", "NO_IMAGES=1"); err == nil || len(settings) != 0 {
		t.Errorf("up without the images: %v, .env has %v\n%s", err, settings, said)
	}
	s.want(map[string]string{}, []string{"[] compose up -d"}, "up")
	s.want(map[string]string{"COMPOSE_PROFILES": "etcd", "SHOP_ETCD": profiles["etcd"].address}, nil, "up",
		"PROFILES=etcd")
}

// make up prints the address of the console with the token behind '#', so that one click opens it; a console that is
// not healthy does not fail it.
func TestComposeTellsTheConsole(t *testing.T) {
	t.Parallel()
	s := newComposeScript(t)
	said, _, _, err := s.run("up", "SHOP_ADMIN_TOKEN=t0ken")
	if want := "http://localhost:" + s.port + "/console/#token=t0ken "; err != nil || !strings.Contains(said, want) {
		t.Errorf("make up: %v, want %q in\n%s", err, want, said)
	}
	sick := strings.Replace(fakeDocker, "  'inspect '*)", "  'inspect '*id-of-console) echo unhealthy ;;\n  'inspect '*)",
		1)
	// how long it waits for the console
	brief := strings.Replace(read(t, "../scripts/compose"), "SECONDS + 15", "SECONDS + 1", 1)
	writePrograms(t, s.dir, map[string]string{"bin/docker": sick, "scripts/compose": brief})
	said, _, _, err = s.run("up", "SHOP_ADMIN_TOKEN=t0ken")
	if want := "scripts/compose logs console"; err != nil || !strings.Contains(said, want) ||
		!strings.Contains(said, "ready after") {
		t.Errorf("make up with a console that is not healthy: %v, want %q in\n%s", err, want, said)
	}
}

// help prints the head of the script, wherever it is started.
func TestComposeHelp(t *testing.T) {
	t.Parallel()
	s := newComposeScript(t)
	for _, where := range []string{".", "scripts"} {
		cmd := exec.CommandContext(t.Context(), "./compose", "help")
		if where == "." {
			cmd.Path, cmd.Args[0] = "scripts/compose", "scripts/compose"
		}
		cmd.Dir = filepath.Join(s.dir, where)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "Runs Compose, ") ||
			!strings.HasSuffix(string(out), ": ps, logs -f shop-1, stop redis\n") {
			t.Errorf("%s help in %s: %v\n%s", cmd.Args[0], where, err, out)
		}
	}
}

// scripts/rolling --compose starts a project of its own beside that of make up: nothing that a shell has from the
// latter's .env reaches it.
func TestRollingLeavesTheEnvBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writePrograms(t, dir, map[string]string{
		"scripts/rolling": read(t, "../scripts/rolling"), "scripts/commit": "#!/bin/sh\necho 0123456789ab\n",
		"Dockerfile":      "FROM a\nFROM b\n",
		"scripts/compose": "#!/bin/sh\nenv >>\"$SEEN\"\necho SHOP_ADMIN_TOKEN=fresh >.env\n",
		"bin/shop":        "#!/bin/sh\nexec \"$5\" \"$6\"\n",
		"fake/docker":     "#!/bin/sh\necho amd64\n", "fake/go": "#!/bin/sh\nexit 0\n",
	})
	leaking := []string{
		"SHOP_NET=10.200.1", "SHOP_ETCD=http://etcd:2379", "SHOP_KAFKA=kafka:9092", "SHOP_REDIS_PASSWORD=old",
		"SHOP_SQL_PASSWORD=old",
		"SHOP_ADMIN_TOKEN=old", "SHOP_DRAIN=1s", "SHOP_IMAGE=old", "COMPOSE_PROFILES=etcd,kafka",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://x",
	}
	seen := filepath.Join(dir, "seen")
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append([]string{"PATH=" + dir + "/fake:/usr/bin:/bin", "HOME=" + dir, "SEEN=" + seen, "SHOP_CPUS=1"},
			leaking...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	run("git", "init", "-q")
	run("git", "add", "scripts", "Dockerfile")
	run("git", "-c", "user.name=x", "-c", "user.email=x@example", "commit", "-q", "-m", "all")
	run(dir+"/scripts/rolling", "--compose", "HEAD")
	env := read(t, seen)
	for _, setting := range leaking {
		if strings.Contains(env, setting+"\n") {
			t.Errorf("%s reaches the second project", setting)
		}
	}
	for _, want := range []string{"COMPOSE_PROJECT_NAME=lastitem-rolling-", "SHOP_PORT=", "SHOP_CPUS=1\n"} {
		if !strings.Contains(env, want) {
			t.Errorf("the second project has no %s:\n%s", want, env)
		}
	}
}

// The secrets are random, stay, and are nobody else's to read; a database whose password was lost is not given another
// one.
func TestComposeSecrets(t *testing.T) {
	t.Parallel()
	fresh, lost := newComposeScript(t), newComposeScript(t)
	if said, _, _, err := fresh.run("up"); err != nil {
		t.Fatalf("up: %v\n%s", err, said)
	}
	env := read(t, fresh.dir+"/.env")
	for _, name := range []string{"SHOP_ADMIN_TOKEN", "SHOP_REDIS_PASSWORD", "SHOP_SQL_PASSWORD"} {
		if !regexp.MustCompile(`(?m)^` + name + `=[0-9a-f]{48}$`).MatchString(env) {
			t.Errorf(".env has no %s of 192 random bits", name)
		}
	}
	if info, err := os.Stat(fresh.dir + "/.env"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf(".env: %v, %v, want -rw-------", info.Mode(), err)
	}
	if _, _, _, err := fresh.run("up"); err != nil || read(t, fresh.dir+"/.env") != env {
		t.Errorf("up again: %v; .env is now\n%s", err, read(t, fresh.dir+"/.env"))
	}
	said, _, _, err := lost.run("up", "OLD_VOLUME=1")
	if err == nil || !strings.Contains(said, "Write it into .env as SHOP_SQL_PASSWORD") ||
		strings.Contains(read(t, lost.dir+"/.env"), "SHOP_SQL_PASSWORD") {
		t.Errorf("up on the volume of another password: %v\n%s", err, said)
	}
}
