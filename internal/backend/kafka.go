package backend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"lastitem/say/redact"
	"lastitem/say/text"
)

// OpenKafka returns a client for the brokers at the addresses (host:port, several comma-separated), with further
// options. It does not connect yet.
func OpenKafka(addresses string, opts ...kgo.Opt) (*kgo.Client, error) {
	var seeds []string
	for part := range strings.SplitSeq(addresses, ",") {
		seed := strings.TrimSpace(part)
		if !hostPort(seed) {
			return nil, text.Of("backend: Kafka address %q: want host:port, with no user, path or parameter").
				Errorf(redact.Address(seed))
		}
		seeds = append(seeds, seed)
	}
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.ClientID("lastitem"),
		// By default a client that has lost its brokers waits for up to five seconds between two tries, at each of several
		// layers.
		kgo.RetryBackoffFn(kafkaBackoff), kgo.MetadataMinAge(mostBackoff),
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("backend: Kafka: %w", err)
	}
	return c, nil
}

// A client of Kafka or etcd tries again within mostBackoff, and so notices within that time that the servers are back.
// By default the client of Kafka waits for up to five seconds, and that of etcd for up to two minutes.
const (
	leastBackoff = 50 * time.Millisecond
	mostBackoff  = 500 * time.Millisecond
)

// kafkaBackoff is how long to wait after so many failures, give or take a fifth, so that replicas do not all retry at
// the same moment.
func kafkaBackoff(fails int) time.Duration {
	wait := min(leastBackoff<<min(max(fails-1, 0), 10), mostBackoff)
	return time.Duration(float64(wait) * (0.8 + 0.4*rand.Float64()))
}

// KafkaPrefix returns the prefix of topics and groups for a prefix of Redis keys: Kafka's names must not contain a
// colon.
func KafkaPrefix(prefix string) string { return strings.ReplaceAll(prefix, ":", "-") }

// ForgetKafka deletes the topics and the consumer groups that belong to a prefix of Redis keys. One that is gone
// already is no error; a group that still has members is one.
func ForgetKafka(ctx context.Context, c *kgo.Client, prefix string) error {
	admin := kadm.NewClient(c)
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("backend: list Kafka's groups: %w", err)
	}
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("backend: list Kafka's topics: %w", err)
	}
	others := func(name string) bool { return !strings.HasPrefix(name, KafkaPrefix(prefix)) }
	var errs []error
	deleted, err := admin.DeleteGroups(ctx, slices.DeleteFunc(groups.Groups(), others)...)
	for _, d := range deleted {
		errs = append(errs, d.Err)
	}
	gone, topicsErr := admin.DeleteTopics(ctx, slices.DeleteFunc(topics.Names(), others)...)
	for _, d := range gone {
		errs = append(errs, d.Err)
	}
	errs = slices.DeleteFunc(append(errs, err, topicsErr), func(err error) bool {
		return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.GroupIDNotFound)
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("backend: delete Kafka's topics and groups: %w", err)
	}
	return nil
}

// openKafka makes the client of the probes, and the function that makes the clients of the modes, each of which
// consumes with options of its own. A client connects when it is first used.
func (s *Set) openKafka(cfg Config) error {
	if cfg.Kafka == "" {
		return nil
	}
	s.Kafka = func(opts ...kgo.Opt) (*kgo.Client, error) {
		return OpenKafka(cfg.Kafka, append([]kgo.Opt{kgo.DialTimeout(cfg.Patience.orDefault().Dial)}, opts...)...)
	}
	client, err := s.Kafka(kgo.ClientID("lastitem-health"))
	if err != nil {
		return err
	}
	s.watch(cfg, "kafka", probe{ask: client.Ping, close: func() error { client.Close(); return nil }})
	return nil
}
