package redisdb_test

import (
	"testing"
	"time"

	"lastitem/internal/store/redisdb"
	"lastitem/testkit"
	"lastitem/testkit/storetest"
	"lastitem/testkit/testenv"
)

// The answer to a sale is replayed for as long as it is kept, and then the key sells again.
func TestPurgeRedis(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, s *testenv.RedisServer) {
		reset(t, r, 1, 5, 0)
		r.KeepAnswers(time.Hour)
		keep := 24 * time.Hour
		sell := func() redisdb.Sold {
			got, err := r.Sell(t.Context(), sale("a", "k", 1))
			testkit.Mustf(t, err, "Sell()")
			return got
		}
		purged := int64(0)
		purge := func() {
			gone, err := r.Purge(t.Context(), keep)
			if purged += gone; err != nil {
				t.Fatalf("Purge() = %v", err)
			}
		}
		sell()
		purge()
		purge()
		if got := sell(); !got.Earlier {
			t.Errorf("Sell() within the retention = %+v, want the earlier answer", got)
		}
		claim := s.Prefix + "key:k"
		if left := s.Client.PTTL(t.Context(), claim).Val(); left <= 0 || left > time.Hour {
			t.Errorf("the claim ends in %s, want it within the hour for which answers are kept", left)
		}
		keep = time.Millisecond
		s.Client.Del(t.Context(), claim) // as if it had expired
		testkit.Until(t, "sale under a key after its retention", func() bool { purge(); return !sell().Earlier })
		testkit.Until(t, "purged answer", func() bool { purge(); return purged > 0 })
		f, err := storetest.Whole(t, r, 1)
		if err != nil || f.Stock != 3 || len(f.Orders) != 2 {
			t.Errorf("Facts() = %+v, %v, want two sales", f, err)
		}
		reset(t, r, 1, 5, 0)
		if left := s.Client.Keys(t.Context(), s.Prefix+"answers*").Val(); len(left) > 0 {
			t.Errorf("after a reset: %q, want nothing", left)
		}
	})
}

// A purge moves young answers to answers-old: a key whose claim exists is replayed from there.
func TestPurgeRedisYoungAnswers(t *testing.T) {
	onEachRedis(t, func(t *testing.T, r *redisdb.Store, s *testenv.RedisServer) {
		reset(t, r, 1, 5, 0)
		_, err := r.Sell(t.Context(), sale("a", "k", 1))
		testkit.Mustf(t, err, "Sell()")
		testkit.Until(t, "older part of the answers", func() bool {
			_, err := r.Purge(t.Context(), time.Millisecond)
			testkit.Mustf(t, err, "Purge()")
			return s.Client.HExists(t.Context(), s.Prefix+"answers-old:{1}", "k").Val()
		})
		if got, err := r.Sell(t.Context(), sale("b", "k", 1)); err != nil || !got.Earlier {
			t.Errorf("Sell() with a key in answers-old = %+v, %v, want the earlier answer", got, err)
		}
		s.Client.Del(t.Context(), s.Prefix+"key:k") // as if it had expired
		if got, err := r.Sell(t.Context(), sale("c", "k", 1)); err != nil || got.Earlier {
			t.Errorf("Sell() with a key whose claim has expired = %+v, %v, want a sale", got, err)
		}
	})
}
