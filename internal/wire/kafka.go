package wire

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka returns a protocol that reads Kafka's, without TLS and SASL: the records that are produced, those that a fetch brings,
// and the offsets that a group commits. What else a client says is about connections, topics and groups, and is left out, as
// are fetches that bring nothing. The connections of one tap belong together: topics have ids, and which name an id is of, a
// client learns by another connection than it uses it on.
func Kafka() Protocol {
	topics := &kafkaTopics{}
	return func() (sent, heard Reader) {
		c := &kafkaConn{topics: topics, open: map[int32]*kafkaOpen{}}
		return c.sent, c.heard
	}
}

// kafkaConn is one connection. Requests and answers carry the same number.
type kafkaConn struct {
	topics            *kafkaTopics
	asking, answering []byte
	open              map[int32]*kafkaOpen
}

// kafkaOpen is a request without an answer; its call is nil where it is read for its answer's sake.
type kafkaOpen struct {
	request kmsg.Request
	call    *Call
}

func (c *kafkaConn) sent(p []byte) (calls []*Call) {
	var messages [][]byte
	messages, c.asking = kafkaMessages(append(c.asking, p...))
	for _, m := range messages {
		number, request := kafkaRequest(m)
		if request == nil {
			continue
		}
		o := &kafkaOpen{request: request}
		switch r := request.(type) {
		case *kmsg.ProduceRequest:
			o.call = &Call{Text: c.topics.produced(r)}
		case *kmsg.OffsetCommitRequest:
			o.call = &Call{Text: c.topics.committed(r)}
		case *kmsg.FetchRequest:
			o.call = &Call{Poll: true}
		case *kmsg.MetadataRequest, *kmsg.CreateTopicsRequest:
		default:
			continue
		}
		c.open[number] = o
		if o.call != nil {
			calls = append(calls, o.call)
		}
	}
	return calls
}

func (c *kafkaConn) heard(p []byte) (calls []*Call) {
	var messages [][]byte
	messages, c.answering = kafkaMessages(append(c.answering, p...))
	for _, m := range messages {
		if len(m) < 4 {
			continue
		}
		number := int32(binary.BigEndian.Uint32(m)) //nolint:gosec // the number is signed on the wire
		o := c.open[number]
		delete(c.open, number)
		if o != nil && c.answered(o, m[4:]) {
			calls = append(calls, o.call)
		}
	}
	return calls
}

// answered reads an answer, and says whether its request is to be shown.
func (c *kafkaConn) answered(o *kafkaOpen, body []byte) bool {
	answer := o.request.ResponseKind()
	b := kbin.Reader{Src: body}
	if answer.IsFlexible() {
		kmsg.SkipTags(&b)
	}
	if !b.Ok() || answer.ReadFrom(b.Src) != nil {
		return o.call != nil && !o.call.Poll
	}
	switch r := answer.(type) {
	case *kmsg.FetchResponse:
		o.call.Text = c.topics.fetched(r)
		return o.call.Text != ""
	case *kmsg.MetadataResponse:
		for _, t := range r.Topics {
			c.topics.learn(t.TopicID, t.Topic)
		}
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			c.topics.learn(t.TopicID, &t.Topic)
		}
	}
	return o.call != nil
}

// kafkaMessages cuts what is whole from the beginning of p, each message without its length, and returns the rest.
func kafkaMessages(p []byte) (messages [][]byte, rest []byte) {
	for len(p) >= 4 {
		size := int(binary.BigEndian.Uint32(p))
		if len(p) < 4+size {
			break
		}
		messages, p = append(messages, p[4:4+size]), p[4+size:]
	}
	return messages, p
}

// kafkaRequest reads a request and its number; nil where it cannot be read.
func kafkaRequest(message []byte) (number int32, request kmsg.Request) {
	b := kbin.Reader{Src: message}
	key, version := b.Int16(), b.Int16()
	number = b.Int32()
	b.NullableString() // of the client
	if request = kmsg.RequestForKey(key); request == nil {
		return number, nil
	}
	request.SetVersion(version)
	if request.IsFlexible() {
		kmsg.SkipTags(&b)
	}
	if !b.Ok() || request.ReadFrom(b.Src) != nil {
		return number, nil
	}
	return number, request
}

// kafkaTopics knows the names of topics by their ids.
type kafkaTopics struct{ names sync.Map }

func (t *kafkaTopics) learn(id [16]byte, name *string) {
	if name != nil {
		t.names.Store(id, *name)
	}
}

// place names a partition, whose topic was given by its name or by its id.
func (t *kafkaTopics) place(name string, id [16]byte, partition int32) string {
	if known, ok := t.names.Load(id); ok && name == "" {
		name, _ = known.(string)
	}
	if name == "" {
		name = hex.EncodeToString(id[:])
	}
	return fmt.Sprintf("%s/%d", name, partition)
}

func (t *kafkaTopics) produced(r *kmsg.ProduceRequest) string {
	var parts []string
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			parts = append(parts, t.place(topic.Topic, topic.TopicID, p.Partition)+": "+kafkaRecords(p.Records, func(r *kgo.Record) string {
				return kafkaKey(r) + "value " + kafkaValue(r.Value)
			}))
		}
	}
	return "Produce " + strings.Join(parts, "; ")
}

// fetched is "" where the fetch brought nothing.
func (t *kafkaTopics) fetched(r *kmsg.FetchResponse) string {
	var parts []string
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			records := kafkaRecords(p.RecordBatches, func(r *kgo.Record) string { return fmt.Sprintf("%soffset %d", kafkaKey(r), r.Offset) })
			if records != "" {
				parts = append(parts, t.place(topic.Topic, topic.TopicID, p.Partition)+": "+records)
			}
		}
	}
	if parts == nil {
		return ""
	}
	return "Fetch " + strings.Join(parts, "; ")
}

func (t *kafkaTopics) committed(r *kmsg.OffsetCommitRequest) string {
	var parts []string
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			parts = append(parts, fmt.Sprintf("%s: offset %d", t.place(topic.Topic, topic.TopicID, p.Partition), p.Offset))
		}
	}
	return "OffsetCommit " + r.Group + " " + strings.Join(parts, "; ")
}

// kafkaRecords reads batches of records as a client does that has fetched them.
func kafkaRecords(batches []byte, text func(*kgo.Record) string) string {
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches = batches
	read, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{}, &p, kgo.DefaultDecompressor(), nil)
	all := make([]string, len(read.Records))
	for i, r := range read.Records {
		all[i] = text(r)
	}
	return strings.Join(all, ", ")
}

func kafkaKey(r *kgo.Record) string {
	if r.Key == nil {
		return ""
	}
	return "key " + quote(string(r.Key)) + " "
}

// base64String is a string in JSON that says nothing to people.
var base64String = regexp.MustCompile(`"[A-Za-z0-9+/]{40,}={0,2}"`)

// kafkaValue writes a value on one line; long base64 in it is shown as <bytes>.
func kafkaValue(value []byte) string {
	return quote(base64String.ReplaceAllString(string(value), "<bytes>"))
}
