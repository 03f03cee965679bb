package testenv

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// KafkaBroker is an embedded Kafka of the test's own, which keeps everything in memory. It speaks the protocol of real brokers;
// what they do with disks and with each other it does not have.
type KafkaBroker struct {
	Seeds   string         // host:port
	Cluster *kfake.Cluster // to interfere with requests
}

// Kafka gives one broker.
func Kafka(t testing.TB) *KafkaBroker {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatalf("testenv: Kafka: %v", err)
	}
	t.Cleanup(c.Close)
	return &KafkaBroker{strings.Join(c.ListenAddrs(), ","), c}
}
