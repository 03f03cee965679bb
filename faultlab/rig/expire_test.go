package rig

import (
	"testing"
	"time"

	"lastitem/internal/localstack"
)

// To the servers of a lane the TTL has passed: a lock is gone, a key with a longer life lives a TTL less, and a key without a TTL stays.
// The keys of other lanes, which may be on the same server, are unchanged.
func TestExpire(t *testing.T) {
	t.Parallel()
	l := serversOnly(t, Equipment{})
	l.number, l.TTL = 3, 10*time.Minute
	l.links[0].env, l.links[1].env = "SHOP_REDIS", "SHOP_REDLOCK"
	const lock, fence, forever, others = "lane3:lock:m:{1}", "lane3:lock:m:{1}:fence", "lane3:lock:setnx:{1}", "lane13:lock:m:{1}"
	for _, server := range l.OwnServers() {
		tell(t, l, server, "SET", lock, "a", "PX", "600000")
		tell(t, l, server, "SET", fence, "7", "PX", "1200000")
		tell(t, l, server, "SET", forever, "a")
		tell(t, l, server, "SET", others, "a", "PX", "600000")
	}
	n, err := l.Expire(t.Context(), localstack.Etcd) // the lane has no etcd, and so no session to end
	if err != nil || n != 4 {
		t.Errorf("Expire = %d, %v, want 4", n, err)
	}
	for _, server := range l.OwnServers() {
		for key, want := range map[string][2]int{lock: {-2, -2}, fence: {300_000, 600_000}, forever: {-1, -1}, others: {300_000, 600_000}} {
			if left := pttl(t, l, server, key); left < want[0] || left > want[1] {
				t.Errorf("%s: PTTL %s = %d, want %d to %d", server, key, left, want[0], want[1])
			}
		}
	}
	l.Service.Alone = true // no other lane is on its Redis
	if n, err := l.Expire(t.Context()); err != nil || n != 4 {
		t.Errorf("Expire on servers of its own = %d, %v, want 4: the fence and the other key on both", n, err)
	}
}
