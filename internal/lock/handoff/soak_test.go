package handoff_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/testenv"
)

// TestEngineSoak repeats the random cuts and the state machines for as long as LOCK_TEST_SOAK says ('make soak'). Each round
// has a seed of its own, which is printed; LOCK_TEST_SEED is that of the first, so that a round that failed is repeated by
// giving its seed and a short time. A round that hangs ends the test with all goroutines.
func TestEngineSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("LOCK_TEST_SOAK"))
	if err != nil {
		return // it is not asked for
	}
	const (
		cuts       = 500
		roundLimit = 10 * time.Minute // a round takes one or two
	)
	first := number("LOCK_TEST_SEED", rand.Uint64())
	end, rounds, bubbles, tcp, runs := time.Now().Add(length), 0, 0, 0, 0
	say := func() {
		fmt.Printf("soak: %d rounds, seeds %d to %d: %d random cuts with %d acquisitions in virtual time, %d cuts with %d over TCP, %d sequences of the state machines\n",
			rounds, first, first+uint64(rounds)-1, 3*cuts*rounds, bubbles, 2*cuts*rounds, tcp, runs)
	}
	stuck := time.AfterFunc(roundLimit, func() {
		debug.SetTraceback("all")
		panic("soak: the last round has not ended in " + roundLimit.String())
	})
	defer stuck.Stop()
	for seed := first; rounds == 0 || time.Now().Before(end) && !t.Failed(); seed++ {
		fmt.Printf("soak: LOCK_TEST_SEED=%d\n", seed)
		stuck.Reset(roundLimit)
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			for _, name := range []string{"handoff", "fair"} {
				t.Run("cuts/"+name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { bubbles += randomCuts(t, name, cuts, seed) })
				})
				t.Run("TCP/"+name, func(t *testing.T) { tcp += cutTCP(t, testenv.Redis(t), name, cuts, seed) })
			}
			if err := flag.Set("rapid.seed", strconv.FormatUint(max(seed, 1), 10)); err != nil { // 0 is chance
				t.Fatal(err)
			}
			t.Run("state machine", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { runs += stateMachine(t) })
			})
			t.Run("read-write/cuts", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { bubbles += rwRandomCuts(t, cuts, seed) })
			})
			t.Run("read-write/state machine", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { runs += rwStateMachine(t) })
			})
		})
		if rounds++; rounds%10 == 0 {
			say()
		}
	}
	say()
}
