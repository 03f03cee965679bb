package stack

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lastitem/say/text"
)

// program is one real server: the names of its binary, best first, and the package to install.
type program struct {
	names   []string
	install text.Text
	// also looks for what the program needs besides, and says what is missing; nil = nothing.
	also func() text.Text
}

// redisProgram is what Redis and each node of a Redlock run.
var redisProgram = program{names: []string{"redis-server"}, install: text.Of("apt-get install redis-server, or brew " +
	"install redis")}

// programs are the real servers, by backend. MariaDB comes first: where both are there, mysqld is often a link to it.
var programs = map[string]program{
	Redis: redisProgram, Redlock: redisProgram,
	MySQL: {names: []string{"mariadbd", "mysqld"}, install: text.Of("apt-get install mariadb-server, or brew install " +
		"mariadb")},
	Postgres: {names: []string{"postgres"}, install: text.Of("apt-get install postgresql, or brew install postgresql"),
		also: func() text.Text {
			if lookUp("initdb") == "" {
				return text.Plain("initdb (PostgreSQL)")
			}
			return text.Text{}
		}},
	Nginx: {names: []string{"nginx"}, install: text.Of("apt-get install nginx-light, or brew install nginx")},
	Etcd:  {names: []string{"etcd"}, install: text.Of("apt-get install etcd-server, or brew install etcd")},
	ZooKeeper: {names: []string{"java"}, install: text.Plain("apt-get install zookeeper"), also: func() text.Text {
		if debianZooKeeper() == "" {
			return text.Plain("ZooKeeper (zookeeper.jar)")
		}
		return text.Text{}
	}},
	Kafka: {names: []string{"java"}, install: text.Of("apt-get install openjdk-17-jre-headless maven, then " +
		"scripts/real-kafka"), also: func() text.Text {
		if kafkaJars() == "" {
			return text.Of("Apache Kafka (its jars)")
		}
		return text.Text{}
	}},
	Compiler: {names: []string{"cc", "gcc", "clang"}, install: text.Plain("apt-get install gcc libc6-dev")},
	Consul: {names: []string{"consul"}, install: text.Of("a binary from https://releases.hashicorp.com/consul on PATH " +
		"(Debian 12 has no package)")},
}

// extraDirs are where Debian and others put servers although they are not on a user's PATH.
var extraDirs = []string{"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/homebrew/sbin"}

// Compiler is the C compiler that builds the library of a [Clock]. It is not a server, but [Find] finds it too.
const Compiler = "cc"

// errNotInstalled is in every error of Find, which ends with what to install.
var errNotInstalled = text.Of("not found").Errorf()

// EnvProgram and the name of a backend in capitals make the variable that names the program of its real server, instead
// of the one that would be found: SHOP_PROGRAM_MYSQL=/opt/mysql/bin/mysqld. The nodes of a Redlock are
// SHOP_PROGRAM_REDIS too.
const EnvProgram = "SHOP_PROGRAM_"

// Find returns the path of the real server for a backend (Redis, MySQL, Nginx, ...): the one that the environment
// names, or else one on PATH or where servers are usually installed; for ZooKeeper and Kafka it is that of java. Its
// error names what to install.
func Find(backend string) (string, error) {
	p, ok := programs[backend]
	if !ok {
		return "", text.Of("stack: unknown backend %q").Errorf(backend)
	}
	if backend == Redlock {
		backend = Redis
	}
	if name := EnvProgram + strings.ToUpper(backend); os.Getenv(name) != "" {
		path, err := exec.LookPath(os.Getenv(name))
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return "", text.Of("%s is %q: %w").Errorf(name, os.Getenv(name), err)
		}
		return path, nil
	}
	what := text.Text{En: strings.Join(p.names, " or "), Zh: strings.Join(p.names, text.Of(" or ").Zh)}
	for _, name := range p.names {
		path := lookUp(name)
		if path == "" {
			continue
		}
		if p.also == nil {
			return path, nil
		}
		if what = p.also(); what.En == "" {
			return path, nil
		}
	}
	return "", text.Of("%s %w; to install it: %s").Errorf(what, errNotInstalled, p.install)
}

// versionDirs are where Debian and Homebrew put the versions of PostgreSQL; they link only the client's programs.
var versionDirs = []string{"/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql@*/bin"}

// lookUp finds an executable on PATH, then in extraDirs, then in versionDirs; "" when there is none.
func lookUp(name string) string {
	dirs := slices.Concat([]string{""}, extraDirs)
	for _, pattern := range versionDirs {
		found, _ := filepath.Glob(pattern)
		slices.Reverse(found) // newer ones first
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			if abs, err := filepath.Abs(path); err == nil {
				return abs
			}
		}
	}
	return ""
}

// debianZooKeeper is the archive of Debian's package libzookeeper-java, which names what else it needs; "" when it is
// missing.
func debianZooKeeper() string {
	const jar = "/usr/share/java/zookeeper.jar"
	if _, err := os.Stat(jar); err != nil {
		return ""
	}
	return jar
}

// kafkaJars is the directory of a broker's jars: what scripts/real-kafka fetched into the user's cache, in its newest
// version, or an installation in a usual place; "" when there is none.
func kafkaJars() string {
	places := []string{"/opt/kafka/libs", "/opt/homebrew/opt/kafka/libexec/libs"}
	if cache := cacheDir(); cache != "" {
		complete, _ := filepath.Glob(filepath.Join(cache, "lastitem", "kafka-[0-9]*", "complete"))
		slices.Sort(complete)
		for _, c := range complete {
			places = slices.Insert(places, 0, filepath.Join(filepath.Dir(c), "libs"))
		}
	}
	for _, dir := range places {
		if kafkaVersion(dir) != "" {
			return dir
		}
	}
	return ""
}

// cacheDir is the user's, also on macOS as the scripts know it.
func cacheDir() string {
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/tmp"
	}
	return filepath.Join(home, ".cache")
}

// kafkaVersion is the version of the broker whose jars are in a directory; "" when there are none.
func kafkaVersion(jars string) string {
	found, _ := filepath.Glob(filepath.Join(jars, "kafka_2.1[0-9]-[0-9]*.jar"))
	if len(found) == 0 {
		return ""
	}
	_, of, _ := strings.Cut(filepath.Base(found[0]), "-")
	return versionNumber.FindString(of)
}

// versionNumber is the first thing in a program's answer that looks like one.
var versionNumber = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// version asks a program for its version: the number, and the whole output.
func version(path, flag string) (number, said string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, _ := exec.CommandContext(ctx, path, flag).CombinedOutput() // what it said matters, not how it ended
	said = string(out)
	return versionNumber.FindString(strings.TrimPrefix(said, path)), said
}

// atLeast compares a version number, such as 1.8.7, with the parts of another. An unknown version counts as older than
// any.
func atLeast(version string, least ...int) bool {
	parts := strings.Split(version, ".")
	for i, want := range least {
		var n int
		if i < len(parts) {
			n, _ = strconv.Atoi(parts[i])
		}
		if n != want {
			return n > want
		}
	}
	return true
}
