package backend

import (
	"fmt"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// OpenKafka returns a client for the brokers at the addresses (host:port, several comma-separated), with further options. It
// connects to nobody yet.
func OpenKafka(addresses string, opts ...kgo.Opt) (*kgo.Client, error) {
	var seeds []string
	for part := range strings.SplitSeq(addresses, ",") {
		seed := strings.TrimSpace(part)
		if host, port, err := net.SplitHostPort(seed); err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("backend: Kafka address %q: want host:port", seed)
		}
		seeds = append(seeds, seed)
	}
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.ClientID("lastitem")}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("backend: Kafka: %w", err)
	}
	return c, nil
}

// KafkaPrefix is how topics and groups begin where Redis keys begin with prefix: Kafka's names have no colon.
func KafkaPrefix(prefix string) string { return strings.ReplaceAll(prefix, ":", "-") }

// openKafka makes the client that asks whether a broker is there, and the function that makes those of the modes: each consumes
// in a way of its own. They connect when they are first used.
func (s *Set) openKafka(cfg Config) error {
	if cfg.Kafka == "" {
		return nil
	}
	s.Kafka = func(opts ...kgo.Opt) (*kgo.Client, error) {
		if cfg.KafkaDial != nil {
			opts = append(opts, kgo.Dialer(cfg.KafkaDial))
		}
		return OpenKafka(cfg.Kafka, opts...)
	}
	client, err := s.Kafka()
	if err != nil {
		return err
	}
	s.watch(cfg, "kafka", probe{ask: client.Ping, close: func() error { client.Close(); return nil }})
	return nil
}
