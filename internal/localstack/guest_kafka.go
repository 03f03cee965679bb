package localstack

import (
	"context"
	"fmt"

	"lastitem/internal/backend"
)

// lookAtKafka makes sure that the user's own brokers answer.
func (g *Guest) lookAtKafka(ctx context.Context) error {
	if g.Own.Kafka == "" {
		return nil
	}
	c, err := backend.OpenKafka(g.Own.Kafka)
	if err != nil {
		return badAddress("--kafka: %w", err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, extrasPatience)
	defer cancel()
	if err := c.Ping(ctx); err != nil {
		return fmt.Errorf("--kafka %s: %w", g.Own.Kafka, err)
	}
	return nil
}

// leaveKafka deletes the topics and consumer groups of the prefix on the user's own brokers.
func (g *Guest) leaveKafka(ctx context.Context) error {
	if g.Own.Kafka == "" {
		return nil
	}
	c, err := backend.OpenKafka(g.Own.Kafka)
	if err != nil {
		return err
	}
	defer c.Close()
	return backend.ForgetKafka(ctx, c, g.Prefix)
}
