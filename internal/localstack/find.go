package localstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// program is one real server: the names of its binary, best first, and the package to install.
type program struct {
	names   []string
	install string
	// also looks for what the program needs besides, and says what is missing; nil = nothing.
	also func() string
}

// redisProgram is what Redis and each node of a Redlock run.
var redisProgram = program{names: []string{"redis-server"}, install: "apt-get install redis-server, or brew install redis"}

// programs are the real servers, by backend. MariaDB comes first: where both are there, mysqld is often a link to it.
var programs = map[string]program{
	Redis: redisProgram, Redlock: redisProgram,
	MySQL: {names: []string{"mariadbd", "mysqld"}, install: "apt-get install mariadb-server, or brew install mariadb"},
	Nginx: {names: []string{"nginx"}, install: "apt-get install nginx-light, or brew install nginx"},
	Etcd:  {names: []string{"etcd"}, install: "apt-get install etcd-server, or brew install etcd"},
	ZooKeeper: {names: []string{"java"}, install: "apt-get install zookeeper", also: func() string {
		if debianZooKeeper() == "" {
			return "ZooKeeper (zookeeper.jar)"
		}
		return ""
	}},
	Kafka: {names: []string{"java"}, install: "apt-get install openjdk-17-jre-headless maven, then scripts/real-kafka", also: func() string {
		if kafkaJars() == "" {
			return "Apache Kafka (its jars)"
		}
		return ""
	}},
	Compiler: {names: []string{"cc", "gcc", "clang"}, install: "apt-get install gcc libc6-dev"},
	Consul:   {names: []string{"consul"}, install: "a binary from https://releases.hashicorp.com/consul on PATH (Debian 12 has no package)"},
}

// extraDirs are where Debian and others put servers although they are not on a user's PATH.
var extraDirs = []string{"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/homebrew/sbin"}

// errNotInstalled is in every error of Find, which ends with what to install.
var errNotInstalled = errors.New("not found")

// EnvProgram and the name of a backend in capitals make the variable that names the program of its real server, instead of the one
// that would be found: SHOP_PROGRAM_MYSQL=/opt/mysql/bin/mysqld. The nodes of a Redlock are SHOP_PROGRAM_REDIS too.
const EnvProgram = "SHOP_PROGRAM_"

// Find returns the path of the real server for a backend (Redis, MySQL, Nginx, ...): the one that the environment names, or else
// one on PATH or where servers are usually installed; for ZooKeeper and Kafka it is that of java. Its error names what to install.
func Find(backend string) (string, error) {
	p, ok := programs[backend]
	if !ok {
		return "", fmt.Errorf("localstack: unknown backend %q", backend)
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
			return "", fmt.Errorf("%s is %q: %w", name, os.Getenv(name), err)
		}
		return path, nil
	}
	what := strings.Join(p.names, " or ")
	for _, name := range p.names {
		path := lookUp(name)
		if path == "" {
			continue
		}
		if p.also == nil {
			return path, nil
		}
		if what = p.also(); what == "" {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s %w; to install it: %s", what, errNotInstalled, p.install)
}

// lookUp finds an executable on PATH, then in extraDirs; "" when there is none.
func lookUp(name string) string {
	for _, dir := range slices.Concat([]string{""}, extraDirs) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			if abs, err := filepath.Abs(path); err == nil {
				return abs
			}
		}
	}
	return ""
}

// versionNumber is the first thing in a program's answer that looks like one.
var versionNumber = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// version asks a program for its version: the number, and all that it said.
func version(path, flag string) (number, said string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, _ := exec.CommandContext(ctx, path, flag).CombinedOutput() // what it said matters, not how it ended
	said = string(out)
	return versionNumber.FindString(strings.TrimPrefix(said, path)), said
}

// onRequest is why an embedded server is used where the user has asked for embedded ones.
const onRequest = "asked for"

// choose picks the real server or the embedded one for a backend by Options.Backend: the path of the real one, "" for
// embedded, or an error. why completes the sentence "embedded, because".
func (o *Options) choose(backend string) (path, why string, err error) {
	if o.Backend == Embedded {
		return "", onRequest, nil
	}
	path, err = Find(backend)
	switch {
	case err == nil:
		return path, "", nil
	case o.Backend == Local:
		return "", "", fmt.Errorf("localstack: backend %s: %w", Local, o.advised(backend, err))
	default:
		return "", err.Error(), nil
	}
}
