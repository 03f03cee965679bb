package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The partitions of topics that this shop makes. At most requestPartitions replicas consume at once. Each replica draws
// one partition of answers, and drops answers to others that drew the same one. Topics with fewer partitions are used
// as they are.
const (
	requestPartitions = 12
	answerPartitions  = 16
)

// topic is a topic as it was found.
type topic struct {
	name       string
	id         [16]byte // a topic that is deleted and made again has another one
	partitions int32
	led        []int32              // those of them that have a leader
	hash       kgo.TopicPartitioner // of keys
}

// draw draws a partition, one that has a leader if any has.
func (t topic) draw() int32 {
	if len(t.led) > 0 {
		return t.led[rand.IntN(len(t.led))]
	}
	return rand.Int32N(t.partitions)
}

// errTopicsChanged ends a link: what it stands on is not there any more.
var errTopicsChanged = errors.New("the topics were deleted, or made again")

// errNoLeader says that the partition in which this replica gets its answers has no leader.
var errNoLeader = errors.New("no broker leads the partition of this replica's answers")

// prepare finds the topics, and makes those that are missing. Where somebody else has made them, with fewer partitions,
// it says so.
func (k *Log) prepare(ctx context.Context, l *link) error {
	for _, t := range []struct {
		into       *topic
		name       string
		partitions int32
	}{{&l.requests, k.prefix + "requests", requestPartitions}, {&l.answers, k.prefix + "answers", answerPartitions}} {
		found, err := findTopic(ctx, l.client, t.name)
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			if err = makeTopic(ctx, l.client, t.name, t.partitions); err == nil {
				found, err = awaitTopic(ctx, l.client, t.name)
			}
		}
		if err != nil {
			return fmt.Errorf("topic %s: %w", t.name, err)
		}
		if found.partitions < t.partitions && k.o.Log != nil {
			k.o.Log.Warn("kafka: a topic has fewer partitions than wanted; it is used as it is",
				"topic", t.name, "partitions", found.partitions, "wanted", t.partitions)
		}
		*t.into = found
	}
	return nil
}

// awaitTopic looks a topic up that has just been made: a broker may answer that it was made before it tells of it. ctx
// bounds the wait.
func awaitTopic(ctx context.Context, c *kgo.Client, name string) (topic, error) {
	for {
		found, err := findTopic(ctx, c, name)
		if !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return found, err
		}
		select {
		case <-ctx.Done():
			return found, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// findTopic looks a topic up. A partition without a leader is no error: the broker that has it may be starting.
func findTopic(ctx context.Context, c *kgo.Client, name string) (topic, error) {
	ask := kmsg.NewPtrMetadataRequest()
	about := kmsg.NewMetadataRequestTopic()
	about.Topic = &name
	ask.Topics = append(ask.Topics, about)
	resp, err := ask.RequestWith(ctx, c)
	if err != nil {
		return topic{}, err
	}
	if len(resp.Topics) != 1 {
		return topic{}, fmt.Errorf("metadata of %d topics, want 1", len(resp.Topics))
	}
	found := resp.Topics[0]
	if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
		return topic{}, err
	}
	if len(found.Partitions) == 0 {
		return topic{}, kerr.UnknownTopicOrPartition
	}
	t := topic{
		name: name, id: found.TopicID, partitions: int32(len(found.Partitions)), hash: byKey.ForTopic(name),
	}
	for _, p := range found.Partitions {
		if p.Leader >= 0 && p.ErrorCode != kerr.LeaderNotAvailable.Code {
			t.led = append(t.led, p.Partition)
		}
	}
	return t, nil
}

// makeTopic makes a topic that another replica may make meanwhile.
func makeTopic(ctx context.Context, c *kgo.Client, name string, partitions int32) error {
	create := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, -1 // as many copies as the broker's default says
	retention := kmsg.NewCreateTopicsRequestTopicConfig()
	retention.Name, retention.Value = "retention.ms", kmsg.StringPtr(strconv.FormatInt(topicRetention.Milliseconds(), 10))
	t.Configs = append(t.Configs, retention)
	create.Topics = append(create.Topics, t)
	resp, err := create.RequestWith(ctx, c)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create: %w", err)
		}
	}
	return nil
}

// look is errTopicsChanged where the topics are not those that the link was made on, errNoLeader where no answer can
// come, and another error where no broker answers.
func (l *link) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, silent)
	defer cancel()
	for _, was := range []topic{l.requests, l.answers} {
		is, err := findTopic(ctx, l.client, was.name)
		switch {
		case errors.Is(err, kerr.UnknownTopicOrPartition), err == nil && is.id != was.id,
			err == nil && is.partitions < was.partitions:
			return fmt.Errorf("%w: %s", errTopicsChanged, was.name)
		case err != nil:
			return err
		case was.name == l.answers.name && !slices.Contains(is.led, l.listens):
			return fmt.Errorf("%w: %d of %s", errNoLeader, l.listens, was.name)
		}
	}
	return nil
}

// byKey chooses the partition of a key as Kafka's own producers do, so that others may produce requests too.
var byKey = kgo.StickyKeyPartitioner(nil)

func productKey(product int64) []byte { return strconv.AppendInt(nil, product, 10) }

// partitionOf is the partition of a product. Where partitions are added, products move when the replicas are started
// again; until all are, a product may have two consumers. The row decides between them.
func (t topic) partitionOf(product int64) int32 {
	return int32(t.hash.Partition(&kgo.Record{Key: productKey(product)}, int(t.partitions)))
}
