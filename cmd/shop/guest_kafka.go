package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"lastitem/internal/backend"
)

// lookAtKafka makes sure that the user's own brokers answer.
func (g *guest) lookAtKafka(ctx context.Context) error {
	if g.Own.Kafka == "" {
		return nil
	}
	c, err := backend.OpenKafka(g.Own.Kafka)
	if err != nil {
		return usage("--kafka: %v", err)
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
func (g *guest) leaveKafka(ctx context.Context) error {
	if g.Own.Kafka == "" {
		return nil
	}
	c, err := backend.OpenKafka(g.Own.Kafka)
	if err != nil {
		return err
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("kafka: list the groups: %w", err)
	}
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("kafka: list the topics: %w", err)
	}
	others := func(name string) bool { return !strings.HasPrefix(name, backend.KafkaPrefix(g.Prefix)) }
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
		return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.GroupIDNotFound) // by the keeper's farewell
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	return nil
}
