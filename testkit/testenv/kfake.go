package testenv

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// EmbeddedBroker is an embedded Kafka of the test's own, which keeps everything in memory. It speaks the protocol of
// real brokers, without their disks and their replication.
type EmbeddedBroker struct {
	Seeds   string         // host:port
	Cluster *kfake.Cluster // to interfere with requests
}

// EmbeddedKafka gives one broker.
func EmbeddedKafka(t testing.TB) *EmbeddedBroker {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatalf("testenv: Kafka: %v", err)
	}
	b := &EmbeddedBroker{strings.Join(c.ListenAddrs(), ","), c}
	t.Cleanup(func() { b.Cluster.Close() })
	return b
}

// Restart ends the broker, and starts an empty one at the same address.
func (b *EmbeddedBroker) Restart(t testing.TB) {
	t.Helper()
	b.Cluster.Close()
	_, text, err := net.SplitHostPort(b.Seeds)
	if err != nil {
		t.Fatalf("testenv: Kafka: %v", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("testenv: Kafka: %v", err)
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port))
	if err != nil {
		t.Fatalf("testenv: Kafka: %v", err)
	}
	b.Cluster = c
}
