package localstack

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kfake"

	"lastitem/internal/text"
)

// StartKfake starts an embedded Kafka broker on addr, whose host must be 127.0.0.1, in this process. It speaks the protocol of
// a recent Kafka, keeps everything in memory, and makes topics that a client asks for with one partition, Kafka's own default.
// The caller closes it.
func StartKfake(addr string) (*kfake.Cluster, error) {
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("localstack: embedded Kafka: %w", err)
	}
	if !at.IP.Equal(net.IPv4(127, 0, 0, 1)) {
		return nil, text.Of("localstack: embedded Kafka: address %s: it listens on 127.0.0.1 only").Errorf(addr)
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(at.Port), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(1))
	if err != nil {
		return nil, fmt.Errorf("localstack: embedded Kafka: %w", err)
	}
	return c, nil
}

// kfake is the embedded broker, a process of ours so that replicas can share it.
func (s *Stack) kfake(binary string) server {
	return server{
		name:  Kafka,
		kind:  "embedded kfake",
		loses: text.Of("its topics were in memory"),
		url:   func(addr string) string { return addr },
		setup: func(addr string) ([]string, error) { return []string{binary, "embedded-kafka", "--listen", addr}, nil },
		ready: kafkaVersions,
	}
}

// kafkaVersions asks a broker which requests it knows, which is how every client begins.
func kafkaVersions(ctx context.Context, addr string) error {
	const apiVersions, number = 18, 0x6c617374
	ask := binary.BigEndian.AppendUint32(nil, 10) // the length of the rest
	ask = binary.BigEndian.AppendUint16(ask, apiVersions)
	ask = binary.BigEndian.AppendUint16(ask, 0)
	ask = binary.BigEndian.AppendUint32(ask, number)
	ask = append(ask, 0xff, 0xff) // no client name
	return answers(ctx, addr, string(ask), func(answer []byte) bool {
		return len(answer) >= 8 && binary.BigEndian.Uint32(answer[4:]) == number
	})
}
