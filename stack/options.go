package stack

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"lastitem/say/text"
)

// Options says what to start. The zero value starts Redis and SQL, real or embedded, and no replica.
type Options struct {
	// Replicas is the number of shop processes; 0 starts the backends only, without a balancer.
	Replicas int
	// Listen is the balancer's address, "127.0.0.1:8080"; "" takes a free loopback port.
	Listen string
	// Backend is Auto (also ""), Embedded or Local.
	Backend string
	// Redis and SQL are the user's own servers, used but neither started nor stopped: a redis:// URL; a DSN of
	// go-sql-driver or "sqlite:" and a path. "" starts one.
	Redis, SQL string
	// Extras of the user's own, likewise. Redlock takes redis:// URLs, Etcd http:// URLs, ZooKeeper and Kafka host:port,
	// several comma-separated; Consul the http:// URL of an agent.
	Redlock, Etcd, ZooKeeper, Consul, Kafka string
	// KeepFailing keeps a replica that fails in the balancer's round, so that a fault under test is met and not avoided.
	// Otherwise it is left out for two seconds at a time.
	KeepFailing bool
	// Console is the address, host:port, of a console to which the balancer sends what begins with /console/; a browser
	// that asks for / is redirected there. "" = there is none.
	Console string
	// Restart starts replicas and the balancer again when they die, and a store whose data outlive it; the end of another
	// part, and without Restart of any, is the end of the stack.
	Restart bool
	// Replica is the shop that the replicas run; "" is Binary.
	Replica string
	// RedisConf are lines for the end of redis.conf, where a real Redis is started.
	RedisConf []string
	// RedisArgs are for the end of its command line, "--sentinel".
	RedisArgs []string
	// SQLConf are options for the end of the command line, "--log-bin=bin", where a real MySQL or MariaDB is started.
	SQLConf []string
	// SQLData is the data directory of a real MySQL or MariaDB, filled where it is empty and kept. "" = one of the stack's
	// own. On one that is not empty the accounts are those that were made before.
	SQLData string
	// EtcdArgs are for the end of the command line, "--quota-backend-bytes=4194304", where a real etcd is started.
	EtcdArgs []string
	// Schemas are databases to make beside "lastitem", where a real MySQL, MariaDB or PostgreSQL is started.
	Schemas []string
	// Only says which backends are started: Redis, MySQL, Postgres, Redlock, Etcd, ZooKeeper, Consul, Kafka. The first two
	// always are with replicas. nil is these two, and with replicas also every extra that is installed: the log says which
	// are not.
	Only []string
	// Extras narrows the extras of an Only that is nil to those that the modes in question need; an extra of the user's
	// own stays. nil = all.
	Extras []string
	// All makes it an error, before anything is started, that a mode would lack a backend; the error says what to install.
	All bool
	// Token is the admin token of the replicas; "" makes a random one.
	Token string
	// Env is added to the environment of the replicas.
	Env []string
	// LastCommand is a command of the shop, with LastCommandEnv on top of its environment, that the keeper runs when
	// everything has ended, however that came: it cleans up what is not on this machine. It has half a minute.
	LastCommand, LastCommandEnv []string
	// Binary is the shop; "" is $SHOP_BINARY, or else the running program. It is started as 'keeper', 'serve',
	// 'embedded-redis', 'embedded-kafka' and 'balance'.
	Binary string
	// Advice says what the user can do, besides installing a program, where a backend is missing: "give your own with
	// --etcd". It ends the error or, where the stack does without, the reason that the replicas give. nil or "" = nothing.
	Advice func(backend string) string
	// Via returns the address, host:port, that a replica (from 1) must use for a server that has an address; nil = the
	// server's own. It is called once for each pair of replica and server, by several goroutines: a replica that is
	// started again keeps its addresses. Its error ends the start.
	Via func(server Service, replica int) (addr string, err error)
	// RTT is a round trip to add between the replicas and their servers, by a Via of our own, so that it excludes Via; 0 =
	// none. Kafka and SQLite, which have no address to put a proxy before, stay as near as they are: the log says so.
	RTT time.Duration
	// Log is told what was chosen and why, a line at a time; nil keeps quiet. It is called by several goroutines.
	Log func(format string, args ...any)
	// Lang is the language of what Log is told: "zh", else English. Errors, and the reasons that are errors, are English.
	Lang string

	unasked       bool   // nobody asked for the extras, so that a missing one is no error
	redisPassword string // "" = a random one
}

// complete checks the options and fills in the defaults.
func (o *Options) complete() error {
	switch o.Backend {
	case "":
		o.Backend = Auto
	case Auto, Embedded, Local:
	default:
		return fmt.Errorf("stack: backend %q: want %s, %s or %s", o.Backend, Auto, Embedded, Local)
	}
	if o.Replicas < 0 {
		return fmt.Errorf("stack: %d replicas", o.Replicas)
	}
	if err := o.completeOnly(); err != nil {
		return err
	}
	if o.Replicas > 0 && o.Listen != "" {
		if err := listenable(o.Listen); err != nil {
			return err
		}
	}
	if o.Token == "" {
		o.Token = secret()
	}
	if o.Binary == "" {
		o.Binary = os.Getenv(EnvBinary)
	}
	if o.Binary == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("stack: which program is this: %w", err)
		}
		o.Binary = self
	}
	if o.Replica == "" {
		o.Replica = o.Binary
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	o.Log = inLanguage(o.Lang, o.Log)
	return nil
}

// secret returns 128 random bits as text.
func secret() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// completeOnly fills in what is to be started.
func (o *Options) completeOnly() error {
	for _, name := range o.Only {
		if !slices.Contains([]string{Redis, MySQL, Postgres}, name) && !slices.Contains(extras, name) {
			return fmt.Errorf("stack: unknown backend %q", name)
		}
	}
	needed := []string{Redis, MySQL}
	switch {
	case o.Only == nil && o.Replicas > 0:
		o.Only, o.unasked = slices.Concat(needed, o.useful()), !o.All
	case o.Only == nil:
		o.Only = needed
	case o.Replicas > 0:
		o.Only = slices.Concat(needed, slices.DeleteFunc(slices.Clone(o.Only), func(name string) bool {
			return slices.Contains(needed, name)
		}))
	}
	if o.All {
		return o.missing()
	}
	return nil
}

// useful returns the extras of an Only that is nil.
func (o *Options) useful() []string {
	if o.Extras == nil {
		return extras
	}
	return slices.DeleteFunc(slices.Clone(extras), func(name string) bool {
		return !slices.Contains(o.Extras, name) && o.own(name) == ""
	})
}

// own is the address that the user gave for an extra.
func (o *Options) own(backend string) string {
	return map[string]string{Redlock: o.Redlock, Etcd: o.Etcd, ZooKeeper: o.ZooKeeper, Consul: o.Consul,
		Kafka: o.Kafka}[backend]
}

// findExtra returns the program of an extra, which for the embedded Kafka is Options.Binary, or an error that says what
// to install.
func (o *Options) findExtra(backend string) (string, error) {
	switch {
	case backend == Kafka && o.Backend == Embedded:
		return o.Binary, nil
	case o.Backend == Embedded:
		return "", o.advised(backend, text.Of("stack: there is no embedded %s").Errorf(backend))
	}
	path, err := Find(backend)
	switch {
	case err != nil && backend == Kafka && o.Backend == Auto:
		return o.Binary, nil
	case err != nil:
		return "", fmt.Errorf("stack: %w", o.advised(backend, err))
	}
	return path, nil
}

// findMySQL says why there would be no MySQL; nil where one is installed, and may be started.
func (o *Options) findMySQL() error {
	_, err := Find(MySQL)
	if o.Backend == Embedded {
		err = text.Of("the embedded database is SQLite").Errorf()
	}
	if err != nil {
		return o.advised(MySQL, err)
	}
	return nil
}

// advised ends the error about a backend that is missing with what the user can do.
func (o *Options) advised(backend string, why error) error {
	var advice string
	if o.Advice != nil {
		advice = o.Advice(backend)
	}
	switch {
	case advice == "":
		return why
	case errors.Is(why, errNotInstalled):
		return text.Of("%w; or %s").Errorf(why, advice)
	default:
		return text.Of("%w: %s").Errorf(why, advice)
	}
}

// ErrMissing says that Options.All cannot be had; the error around it lists what is missing and how to install it.
var ErrMissing = text.Of("stack: not every mode can run here").Errorf()

// missing returns ErrMissing with what a mode would lack; nil where that is nothing.
func (o *Options) missing() error {
	var lacks text.Text
	lack := func(backend string, why error) {
		said := text.Of("\n  %s: %s").With(backend, why)
		lacks.En += strings.Replace(said.En, "stack: ", "", 1)
		lacks.Zh += strings.Replace(said.Zh, "stack: ", "", 1)
	}
	if o.SQL == "" {
		if err := o.findMySQL(); err != nil {
			lack(MySQL, err)
		}
	}
	for _, backend := range o.useful() {
		if o.own(backend) != "" {
			continue
		}
		if _, err := o.findExtra(backend); err != nil {
			lack(backend, err)
		}
	}
	if lacks.En == "" {
		return nil
	}
	return text.Of("%w:%s").Errorf(ErrMissing, lacks)
}

// onRequest is why an embedded server is used where the user has asked for embedded ones.
var onRequest = text.Of("asked for")

// tell tells an error in the language of the options.
func (o *Options) tell(err error) string { return text.ErrorIn(o.Lang, err) }

// firstLine is an error without the log that may follow it, and without our name.
func firstLine(why string) string {
	line, _, _ := strings.Cut(strings.TrimPrefix(why, "stack: "), "\n")
	return line
}

// choose picks the real server or the embedded one for a backend by Options.Backend: the path of the real one, "" for
// embedded, or an error. why completes the sentence "embedded, because".
func (o *Options) choose(backend string) (path, why string, err error) {
	if o.Backend == Embedded {
		return "", onRequest.In(o.Lang), nil
	}
	path, err = Find(backend)
	switch {
	case err == nil:
		return path, "", nil
	case o.Backend == Local:
		return "", "", text.Of("stack: backend %s: %w").Errorf(Local, o.advised(backend, err))
	default:
		return "", o.tell(err), nil
	}
}

// persistent says whether a private Redis keeps its data when it dies.
func (o *Options) persistent() bool {
	return slices.ContainsFunc(o.RedisConf, func(line string) bool {
		return strings.Join(strings.Fields(strings.ToLower(line)), " ") == "appendonly yes"
	})
}

// inLanguage returns a log that translates formats and texts before log gets them.
func inLanguage(lang string, log func(format string, args ...any)) func(format string, args ...any) {
	return func(format string, args ...any) {
		format = text.Known(format).In(lang)
		for i := range args {
			if said, ok := args[i].(text.Text); ok {
				args[i] = said.In(lang)
			}
		}
		log(format, args...)
	}
}
