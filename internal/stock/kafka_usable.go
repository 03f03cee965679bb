package stock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Which partitions are usable. One is when its consumer, in whichever replica, has answered a probe since it was last in doubt:
// from then on a request that is produced there is executed soon. Before, it is declined, since it would be sold at some time when
// its client has long gone.

// route returns the link and the partition for a product, or why there is none to be used.
func (k *kafkaDeductor) route(product int64) (*kafkaLink, int32, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.link == nil {
		return nil, 0, k.unusable(k.why)
	}
	p := k.link.requests.partitionOf(product)
	if !k.link.served[p] {
		return nil, 0, k.unusable(fmt.Sprintf("partition %d of %s: %s", p, k.link.requests.name, k.why))
	}
	return k.link, p, nil
}

// usable is why some products cannot be sold by this mode now, nil when all can.
func (k *kafkaDeductor) usable() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.link == nil {
		return k.unusable(k.why)
	}
	n := 0
	for _, ok := range k.link.served {
		if !ok {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return k.unusable(fmt.Sprintf("%d of %d partitions of %s: %s", n, len(k.link.served), k.link.requests.name, k.why))
}

func (k *kafkaDeductor) unusable(why string) error {
	return &NotReadyError{Why: "kafka: " + why}
}

// doubt takes a partition that did not answer for unusable until it answers a probe.
func (k *kafkaDeductor) doubt(l *kafkaLink, partition int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.served[partition], k.why = false, "its consumer does not answer"
	l.round++
}

func (k *kafkaDeductor) doubtAll(l *kafkaLink, why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(l.served)
	k.why = why
	l.round++
}

// probes are requests for nothing, to the partitions that are not usable.
func (k *kafkaDeductor) probes(l *kafkaLink) (all []kafkaRequest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for p, ok := range l.served {
		if !ok {
			m := kafkaRequest{ReplyTo: l.listens, partition: int32(p)} //nolint:gosec // few
			m.Order.ID = l.probeID(p)
			all = append(all, m)
		}
	}
	return all
}

// probeID names the probe of a partition in this round: an answer to one from before the last doubt removes no doubt.
func (l *kafkaLink) probeID(partition int) string {
	return fmt.Sprintf("probe/%s/%d/%d", l.id, l.round, partition)
}

// deliver gives an answer to whoever waits for it.
func (k *kafkaDeductor) deliver(l *kafkaLink, a kafkaAnswer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, err := strconv.Atoi(a.ID[strings.LastIndexByte(a.ID, '/')+1:]); err == nil && p < len(l.served) && a.ID == l.probeID(p) {
		l.served[p] = true
	}
	if c := k.waiting[a.ID]; c != nil {
		delete(k.waiting, a.ID)
		c <- a
	}
}

// expect returns where the answer to a request will be.
func (k *kafkaDeductor) expect(id string) <-chan kafkaAnswer {
	c := make(chan kafkaAnswer, 1)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting[id] = c
	return c
}

func (k *kafkaDeductor) forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.waiting, id)
}

// rest logs an error, and waits before what had it is tried again. Without one it does nothing.
func (k *kafkaDeductor) rest(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	k.debug("trying again", err) // that the brokers are down, the health check says
	select {
	case <-ctx.Done():
	case <-time.After(kafkaRetry):
	}
}

// failing says why there is no link, and at warn where a broker is the one that says so: that none answers, the health check logs.
func (k *kafkaDeductor) failing(err error) {
	why := err.Error()
	k.mu.Lock()
	same := k.why == why
	k.why = why
	k.mu.Unlock()
	var e *kerr.Error
	if !same && errors.As(err, &e) {
		k.log("trying again", err)
	}
}

func (k *kafkaDeductor) log(what string, err error) {
	if k.deps.Log != nil {
		k.deps.Log.Warn("kafka", "what", what, "err", err)
	}
}

func (k *kafkaDeductor) debug(what string, err error) {
	if k.deps.Log != nil {
		k.deps.Log.Debug("kafka", "what", what, "err", err)
	}
}
