package handoff

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A tick touches no alarm that is not due. The alarms here belong to nothing, so touching one would crash. They are due soon, like the
// polls and renewals of a busy process.
func TestTickStopsAtTheFirstAlarmThatIsNotDue(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer c.Close()
	e, err := New(c, Options{TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close(t.Context()) }()
	const n = 1000
	e.mu.Lock()
	for i := range n {
		e.schedule(&alarm{}, e.now()+time.Minute+time.Duration(i))
		e.schedule(&alarm{contender: &contender{attempt: attempt{state: granted}}}, e.now()+time.Minute+time.Duration(i))
	}
	e.mu.Unlock()
	e.tick()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.polls) != n || len(e.renewals) != n {
		t.Errorf("%d and %d alarms are left of %d each", len(e.polls), len(e.renewals), n)
	}
}
