package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"lastitem/internal/stock"
)

// Which partitions are usable. A partition is usable once its consumer, in whichever replica, has answered a probe that
// was sent after the last doubt: a request that is produced there is then executed soon. Until then requests are
// declined, since they would be executed at some time when their clients have long gone.

// route returns the link and the partition for a product, or why there is none to be used.
func (k *Log) route(product int64) (*link, int32, error) {
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

// Usable is why some products cannot be sold by this mode now, nil when all can.
func (k *Log) Usable() error {
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

func (k *Log) unusable(why string) error {
	return &stock.NotReadyError{Why: "kafka: " + why}
}

// doubt takes a partition that did not answer for unusable until it answers a probe.
func (k *Log) doubt(l *link, partition int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.served[partition] = false
	l.round++
	k.because(l, "its consumer does not answer")
}

func (k *Log) doubtAll(l *link, why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(l.served)
	l.round++
	k.because(l, why)
}

// because notes why a partition of a link is not usable, unless the link has ended, which is the better reason. The
// caller holds the mutex.
func (k *Log) because(l *link, why string) {
	if k.link == l {
		k.why = why
	}
}

// probes are requests for nothing, to the partitions that are not usable.
func (k *Log) probes(l *link) (all []request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for p, ok := range l.served {
		if !ok {
			m := request{ReplyTo: l.listens, partition: int32(p)}
			m.Order.ID = l.probeID(p)
			all = append(all, m)
		}
	}
	return all
}

// probeID names the probe of a partition in this round: an answer to one from before the last doubt removes no doubt.
func (l *link) probeID(partition int) string {
	return fmt.Sprintf("probe/%s/%d/%d", l.id, l.round, partition)
}

// deliver gives an answer to the request that waits for it.
func (k *Log) deliver(l *link, a answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, err := strconv.Atoi(a.ID[strings.LastIndexByte(a.ID, '/')+1:]); err == nil && p < len(l.served) &&
		a.ID == l.probeID(p) {
		l.served[p] = true
	}
	if c := k.waiting[a.ID]; c != nil {
		delete(k.waiting, a.ID)
		c <- a
	}
}

// expect returns where the answer to a request over a link will be. It refuses where the link has ended: then nothing
// may be sent over it.
func (k *Log) expect(l *link, id string) (<-chan answer, error) {
	c := make(chan answer, 1)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.link != l {
		return nil, k.unusable(k.why)
	}
	k.waiting[id] = c
	return c, nil
}

func (k *Log) forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.waiting, id)
}

// rest logs an error and waits before the next try. Without an error it does nothing.
func (k *Log) rest(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	k.debug("trying again", err) // the health check reports brokers that are down
	select {
	case <-ctx.Done():
	case <-time.After(retryAfter):
	}
}

// failing notes why there is no link. It logs the reason at level warn if a broker gave it; the health check logs that
// no broker answers.
func (k *Log) failing(err error) {
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

func (k *Log) log(what string, err error) {
	if k.o.Log != nil {
		k.o.Log.Warn("kafka", "what", what, "err", err)
	}
}

func (k *Log) debug(what string, err error) {
	if k.o.Log != nil {
		k.o.Log.Debug("kafka", "what", what, "err", err)
	}
}
