package stack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"

	"lastitem/say/text"
)

// startKafka fills in s.Kafka with what findExtra chose. With Auto a real broker that does not start gives way to the
// embedded one.
func (s *Stack) startKafka(ctx context.Context, path string) (err error) {
	why := onRequest.In(s.opts.Lang)
	if path != s.opts.Binary {
		from := text.Of("%s, %s").With(path, kafkaJars())
		if s.Kafka, why, err = s.launchReal(ctx, kafkaBroker(path), from); err != nil || why == "" {
			return err
		}
	} else if s.opts.Backend != Embedded {
		_, err := Find(Kafka)
		why = s.opts.tell(err)
	}
	if s.Kafka, err = s.procs.launch(ctx, kfakeServer(s.opts.Binary)); err == nil {
		s.opts.Log("%s: %s at %s, because: %s", Kafka, s.Kafka.Kind, s.Kafka.Addr, why)
	}
	return err
}

// kafkaMain is the class of a broker, kafkaLogging the file that says what it logs.
const (
	kafkaMain    = "kafka.Kafka"
	kafkaLogging = "kafka-log4j2.properties"
)

// kafkaBroker is one Apache Kafka broker that is its own controller, in a small Java machine. It keeps its log on disk,
// as brokers do: written, not forced. Consumers may be taken for dead after a second, where a broker by default wants
// six at least.
func kafkaBroker(java string) server {
	jars := kafkaJars()
	return server{
		name: Kafka,
		kind: "Apache Kafka " + kafkaVersion(jars) + " (private)",
		url:  bare,
		setup: func(at site) ([]string, error) {
			controller, err := at.more()
			if err != nil {
				return nil, err
			}
			conf, err := kafkaFiles(at, controller)
			return []string{
				java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Djava.io.tmpdir=" + at.dir,
				"-Dlog4j2.configurationFile=" + at.file(kafkaLogging), "-cp", filepath.Join(jars, "*"), kafkaMain, conf,
			}, err
		},
		ready: kafkaVersions,
	}
}

// kafkaFiles writes the files of a broker, and returns the path of its configuration. It also writes a missing
// meta.properties: formatting would do no more for a single broker, and would start a Java machine.
func kafkaFiles(at site, controller string) (conf string, err error) {
	data := at.file("kafka")
	conf = data + ".properties"
	files := map[string]string{
		conf: strings.Join([]string{
			"process.roles=broker,controller", "node.id=1", "log.dirs=" + data,
			"listeners=PLAINTEXT://" + at.addr + ",CONTROLLER://" + controller, "advertised.listeners=PLAINTEXT://" + at.addr,
			"controller.listener.names=CONTROLLER", "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
			"controller.quorum.voters=1@" + controller,
			"offsets.topic.replication.factor=1", "offsets.topic.num.partitions=1",
			"transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
			"transaction.state.log.num.partitions=1",
			"group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000", "log.index.size.max.bytes=65536",
			// one that was killed comes back when its session is over
			"broker.session.timeout.ms=4000", "broker.heartbeat.interval.ms=500", "",
		}, "\n"),
		at.file(kafkaLogging): strings.Join([]string{
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
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			return conf, err
		}
	}
	return conf, nil
}

// StartKfake starts an embedded Kafka broker on addr, whose host must be 127.0.0.1, in this process. It speaks the
// protocol of a recent Kafka, keeps everything in memory, and makes topics that a client asks for with one partition,
// Kafka's own default. The caller closes it.
func StartKfake(addr string) (*kfake.Cluster, error) {
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("stack: embedded Kafka: %w", err)
	}
	if !at.IP.Equal(net.IPv4(127, 0, 0, 1)) {
		return nil, text.Of("stack: embedded Kafka: address %s: it listens on 127.0.0.1 only").Errorf(addr)
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(at.Port), kfake.AllowAutoTopicCreation(),
		kfake.DefaultNumPartitions(1))
	if err != nil {
		return nil, fmt.Errorf("stack: embedded Kafka: %w", err)
	}
	return c, nil
}

// kfake is the embedded broker, a process of ours so that replicas can share it.
func kfakeServer(binary string) server {
	return server{
		name:  Kafka,
		kind:  "embedded kfake",
		loses: text.Of("its topics were in memory"),
		url:   bare,
		setup: func(at site) ([]string, error) { return []string{binary, "embedded-kafka", "--listen", at.addr}, nil },
		ready: kafkaVersions,
	}
}

// kafkaVersions asks a broker which requests it knows, which is how every client begins.
func kafkaVersions(ctx context.Context, addr string) error {
	const apiVersions, number = 18, 0x6c617374
	ask := binary.BigEndian.AppendUint32(nil, 10) // the length of the rest
	ask = binary.BigEndian.AppendUint16(ask, apiVersions)
	ask = binary.BigEndian.AppendUint16(ask, 0)
	ask = binary.BigEndian.AppendUint32(ask, number)
	ask = append(ask, 0xff, 0xff) // no client name
	return answers(ctx, addr, string(ask), func(answer []byte) bool {
		return len(answer) >= 8 && binary.BigEndian.Uint32(answer[4:]) == number
	})
}
