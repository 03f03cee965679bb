package testenv

import (
	"context"
	"os"
	"testing"

	"lastitem/internal/backend"
	"lastitem/stack"
	"lastitem/testkit"
)

// Kafka gives the address of a real Apache Kafka broker, which others use too. The topics and groups of a shop whose
// Redis keys have the prefix are deleted at the end of the test.
func Kafka(t testing.TB, prefix string) string {
	t.Helper()
	testkit.NotQuick(t, stack.Kafka)
	seeds := os.Getenv(EnvKafka)
	if seeds == "" {
		seeds = private(t, stack.Kafka).Kafka.URL
	}
	t.Cleanup(func() {
		if err := cleanKafka(seeds, prefix); err != nil {
			t.Errorf("testenv: delete the topics and groups under %s: %v", prefix, err)
		}
	})
	return seeds
}

// cleanKafka deletes what has the prefix.
func cleanKafka(seeds, prefix string) error {
	c, err := backend.OpenKafka(seeds)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), cleaning)
	defer cancel()
	return backend.ForgetKafka(ctx, c, prefix)
}
