package wire

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka reads Kafka's protocol, without TLS and SASL. Produced records, committed offsets, and requests that create or
// end something are calls. A fetch is a poll, and so is a question about brokers, topics and groups. A Recorder leaves
// out these questions, and fetches that bring nothing. The connections of a proxy share the topics' names, because a
// client may learn the name of an id over one connection and use the id on another.
var Kafka = Codec{name: "kafka", plain: true, begin: func() func() session {
	topics := &kafkaTopics{}
	return func() session { return &kafkaSession{topics: topics, open: map[int32]*kafkaOpen{}} }
}}

// kafkaSession is one connection. Requests and answers carry the same number.
type kafkaSession struct {
	topics *kafkaTopics
	open   map[int32]*kafkaOpen
}

// kafkaOpen is a request without an answer; nil where it cannot be read.
type kafkaOpen struct {
	request kmsg.Request
	call    *call
}

const longestKafka = 256 << 20

func (s *kafkaSession) command(p []byte) (message, error) {
	body, n, err := sized(p, longestKafka)
	m := message{size: n}
	if n == 0 || err != nil {
		return m, err
	}
	if len(body) < 8 {
		return m, errors.New("this is not Kafka's protocol: a request without a number")
	}
	key := int16(binary.BigEndian.Uint16(body))
	name := kmsg.NameForKey(key)
	if name == "Unknown" || name == "" {
		return m, fmt.Errorf("this is not Kafka's protocol: a request of kind %d", key)
	}
	if key == int16(kmsg.SASLHandshake) {
		return m, errors.New("the client logs in by SASL: have it connect without")
	}
	number, request := kafkaRequest(body)
	m.call = &call{}
	k := m.call
	k.Text, k.Pattern, k.quiet = name, name, true
	switch r := request.(type) {
	case *kmsg.ProduceRequest:
		k.Text, k.Pattern, k.quiet = s.topics.produced(r), name+s.topics.produces(r), false
		k.silent = r.Acks == 0
	case *kmsg.OffsetCommitRequest:
		k.Text, k.Pattern, k.quiet = s.topics.committed(r), name+" "+Key(r.Group), false
	case *kmsg.FetchRequest:
		k.Poll, k.quiet = true, false
	default:
		k.Setup = key == int16(kmsg.ApiVersions)
		k.Poll = kafkaAside[kmsg.Key(key)]
	}
	if !k.silent {
		s.open[number] = &kafkaOpen{request: request, call: k}
	}
	return m, nil
}

// kafkaAside is what clients ask about brokers, topics and groups, and what keeps a member in its group.
var kafkaAside = map[kmsg.Key]bool{
	kmsg.Metadata: true, kmsg.FindCoordinator: true, kmsg.JoinGroup: true, kmsg.SyncGroup: true, kmsg.Heartbeat: true,
	kmsg.ListOffsets: true,
	kmsg.OffsetFetch: true, kmsg.DescribeGroups: true, kmsg.ListGroups: true, kmsg.InitProducerID: true,
	kmsg.DescribeConfigs:      true,
	kmsg.OffsetForLeaderEpoch: true, kmsg.DescribeCluster: true, kmsg.ConsumerGroupHeartbeat: true,
}

func (s *kafkaSession) answer(p []byte) (message, error) {
	body, n, err := sized(p, longestKafka)
	m := message{size: n}
	if n == 0 || err != nil {
		return m, err
	}
	if len(body) < 4 {
		return m, errors.New("this is not Kafka's protocol: an answer without a number")
	}
	number := signed(body)
	o := s.open[number]
	if o == nil {
		return m, fmt.Errorf("this is not Kafka's protocol: an answer with the number %d of no request", number)
	}
	delete(s.open, number)
	m.of, m.last = o.call, true
	s.read(o, body[4:], &m)
	return m, nil
}

// read learns from an answer.
func (s *kafkaSession) read(o *kafkaOpen, body []byte, m *message) {
	if o.request == nil {
		return
	}
	answer := o.request.ResponseKind()
	switch answer.(type) {
	case *kmsg.FetchResponse, *kmsg.MetadataResponse, *kmsg.CreateTopicsResponse:
	default: // it tells nothing that we show
		return
	}
	if !kafkaRead(answer, body) {
		m.vain = o.call.Poll
		return
	}
	switch r := answer.(type) {
	case *kmsg.FetchResponse:
		m.found = s.topics.fetched(r)
		m.vain = m.found == ""
	case *kmsg.MetadataResponse:
		for _, t := range r.Topics {
			s.topics.learn(t.TopicID, t.Topic)
		}
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			s.topics.learn(t.TopicID, &t.Topic)
		}
	}
}

// kafkaRequest reads the number of a request. It also decodes the request if its kind is shown; request is nil for
// other kinds, and if the message is malformed.
func kafkaRequest(message []byte) (number int32, request kmsg.Request) {
	b := kbin.Reader{Src: message}
	key, version := b.Int16(), b.Int16()
	number = b.Int32()
	b.NullableString() // of the client
	if request = kmsg.RequestForKey(key); request == nil || !b.Ok() || version < 0 || version > request.MaxVersion() {
		return number, nil
	}
	request.SetVersion(version)
	switch request.(type) {
	case *kmsg.ProduceRequest, *kmsg.OffsetCommitRequest:
		if !kafkaRead(request, b.Src) {
			return number, nil
		}
	}
	return number, request
}

// kafkaMessage is a request or an answer.
type kafkaMessage interface {
	Key() int16
	GetVersion() int16
	IsFlexible() bool
	ReadFrom(body []byte) error
}

// kafkaRead reads a message without its number, and says whether it could.
func kafkaRead(m kafkaMessage, body []byte) bool {
	if m.IsFlexible() {
		header := kbin.Reader{Src: body}
		if !readTags(&header, nil) || !kafkaFits(header.Src, kafkaShape(m)) {
			return false
		}
		body = header.Src
	}
	return m.ReadFrom(body) == nil
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

// produces names the topics of a request, for its pattern.
func (t *kafkaTopics) produces(r *kmsg.ProduceRequest) (names string) {
	for _, topic := range r.Topics {
		name, _, _ := strings.Cut(t.place(topic.Topic, topic.TopicID, 0), "/")
		names += " " + Key(name)
	}
	return names
}

func (t *kafkaTopics) produced(r *kmsg.ProduceRequest) string {
	var parts []string
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			parts = append(parts, t.place(topic.Topic, topic.TopicID, p.Partition)+": "+
				kafkaRecords(p.Records, func(r *kgo.Record) string {
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
			records := kafkaRecords(p.RecordBatches, func(r *kgo.Record) string {
				return fmt.Sprintf("%soffset %d", kafkaKey(r), r.Offset)
			})
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
