package localstack

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// startKafka fills in s.Kafka with what findExtra chose. With Auto a real broker that does not start gives way to the embedded one.
func (s *Stack) startKafka(ctx context.Context, path string) (err error) {
	why := onRequest
	if path != s.opts.Binary {
		if s.Kafka, err = s.launch(ctx, s.kafkaBroker(path)); err == nil {
			s.opts.Log("kafka: %s at %s (%s, %s)", s.Kafka.Kind, s.Kafka.Addr, path, kafkaJars())
			return nil
		}
		if s.opts.Backend == Local || ctx.Err() != nil {
			return err
		}
		why = s.opts.tell(err)
	} else if s.opts.Backend != Embedded {
		_, err := Find(Kafka)
		why = s.opts.tell(err)
	}
	if s.Kafka, err = s.launch(ctx, s.kfake(s.opts.Binary)); err == nil {
		s.opts.Log("kafka: %s at %s, because: %s", s.Kafka.Kind, s.Kafka.Addr, why)
	}
	return err
}

// kafkaMain is the class of a broker, kafkaLogging the file that says what it logs.
const (
	kafkaMain    = "kafka.Kafka"
	kafkaLogging = "kafka-log4j2.properties"
)

// kafkaBroker is one Apache Kafka broker that is its own controller, in a small Java machine. It keeps its log on disk, as brokers
// do: written, not forced. Consumers may be taken for dead after a second, where a broker by default wants six at least.
func (s *Stack) kafkaBroker(java string) server {
	jars := kafkaJars()
	return server{
		name: Kafka,
		kind: "Apache Kafka " + kafkaVersion(jars) + " (private)",
		url:  func(addr string) string { return addr },
		setup: func(addr string) ([]string, error) {
			controller, err := s.freeAddr()
			if err != nil {
				return nil, err
			}
			conf, err := s.kafkaFiles(addr, controller)
			return []string{
				java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Djava.io.tmpdir=" + s.Dir,
				"-Dlog4j2.configurationFile=" + filepath.Join(s.Dir, kafkaLogging), "-cp", filepath.Join(jars, "*"), kafkaMain, conf,
			}, err
		},
		ready: kafkaVersions,
	}
}

// kafkaFiles writes the files of a broker, and returns the path of its configuration. It also writes a missing meta.properties:
// formatting would do no more for a single broker, and would start a Java machine.
func (s *Stack) kafkaFiles(addr, controller string) (conf string, err error) {
	data := filepath.Join(s.Dir, "kafka")
	conf = data + ".properties"
	files := map[string]string{
		conf: strings.Join([]string{
			"process.roles=broker,controller", "node.id=1", "log.dirs=" + data,
			"listeners=PLAINTEXT://" + addr + ",CONTROLLER://" + controller, "advertised.listeners=PLAINTEXT://" + addr,
			"controller.listener.names=CONTROLLER", "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
			"controller.quorum.voters=1@" + controller,
			"offsets.topic.replication.factor=1", "offsets.topic.num.partitions=1",
			"transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1", "transaction.state.log.num.partitions=1",
			"group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000", "log.index.size.max.bytes=65536",
			"broker.session.timeout.ms=4000", "broker.heartbeat.interval.ms=500", "", // one that was killed comes back when its session is over
		}, "\n"),
		filepath.Join(s.Dir, kafkaLogging): strings.Join([]string{
			"rootLogger.level = warn", "rootLogger.appenderRef.out.ref = out",
			"appender.out.type = Console", "appender.out.name = out",
			"appender.out.layout.type = PatternLayout", "appender.out.layout.pattern = %d %p %c %m%n", "",
		}, "\n"),
	}
	meta := filepath.Join(data, "meta.properties")
	if _, err := os.Stat(meta); errors.Is(err, fs.ErrNotExist) {
		files[meta] = "version=1\nnode.id=1\ncluster.id=lastitemlastitemlastit\n"
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return conf, err
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return conf, err
		}
	}
	return conf, nil
}

// kafkaJars is the directory of a broker's jars: what scripts/real-kafka fetched into the user's cache, in its newest version, or an
// installation in a usual place; "" when there is none.
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
