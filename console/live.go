package console

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"lastitem/contract/api"
)

// Replica is a process of the shop whose GET /events is read.
type Replica struct {
	Name string `json:"name"` // as in its X-Replica
	URL  string `json:"-"`
}

const (
	// maxEvent bounds the text of one event: the full buffer of a replica.
	maxEvent = 16 << 20
	// connectWithin is how long a run waits for the streams before it begins without them.
	connectWithin = 2 * time.Second
	// settleFor is how long the console waits for the replicas' last events after the last answer: replicas send every 100
	// ms.
	settleFor = 300 * time.Millisecond
	// reconnectAfter is the pause before a broken stream is opened again.
	reconnectAfter = 200 * time.Millisecond
)

// watch reads the events of the replicas into a picture until the returned function is called. It returns when all
// streams are open, or after connectWithin. Events that a stream misses before it opens are missing in the picture
// only.
func (c *Console) watch(ctx context.Context, replicas []Replica, into *picture) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg, open sync.WaitGroup
	for _, r := range replicas {
		open.Add(1)
		first := sync.OnceFunc(open.Done)
		wg.Go(func() {
			defer first()
			var up, lost bool
			opened := func() {
				first()
				if up = true; lost {
					into.mark(time.Now().UnixMicro(), r.Name, Back)
				}
			}
			for ctx.Err() == nil {
				err := c.read(ctx, r, into, opened)
				if err != nil && ctx.Err() == nil {
					c.log("console: events of replica %s: %v", r.Name, err)
				}
				if up && ctx.Err() == nil {
					into.mark(time.Now().UnixMicro(), r.Name, Gone)
					up, lost = false, true
				}
				rest(ctx, reconnectAfter)
			}
		})
	}
	all := make(chan struct{})
	go func() { open.Wait(); close(all) }()
	select {
	case <-all:
	case <-ctx.Done():
	case <-time.After(connectWithin):
	}
	return func() { cancel(); wg.Wait() }
}

// read reads one stream until it ends.
func (c *Console) read(ctx context.Context, r Replica, into *picture, opened func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+"/events", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.options.Token)
	res, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s/events: %s", r.URL, res.Status)
	}
	opened()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var e api.Events
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		into.add(e)
	}
	return lines.Err()
}

// rest waits for a time, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
