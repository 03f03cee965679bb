package handoff_test

import (
	"testing"
	"testing/synctest"
	"time"

	"lastitem/internal/lock/handoff"
	"lastitem/internal/lock/locktest"
	"lastitem/internal/testenv"
)

// A writer that has asked often whether the readers have left asks once more if an answer is lost, as at the beginning.
func TestReadWriteLostAnswerAfterALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, links := network(t, 2)
		c, lost := links[1].client(), &locktest.LostAnswers{Name: "evalsha"}
		c.AddHook(lost)
		held := locktest.Obtain(t, links[0].process(t, handoff.Options{}).ReadWrite().Read(), "k{1}")
		got, failed := waits(t.Context(), links[1].processOn(t, c, handoff.Options{}).ReadWrite().Write(), "k{1}")
		time.Sleep(20 * time.Second)
		lost.Left.Store(1)
		time.Sleep(5 * time.Second)
		if lost.Left.Load() > 0 {
			t.Error("no answer was lost")
		}
		released(t, held)
		select {
		case lease := <-got:
			released(t, lease)
		case err := <-failed:
			t.Errorf("Acquire = %v after one lost answer", err)
		}
		synctest.Wait()
		nothingLeft(t, m, "k{1}")
	})
}

// The set of readers does not outlive the last of them, also where engines have different TTLs.
func TestReadWriteReadersExpire(t *testing.T) {
	s := testenv.Redis(t)
	key := s.Prefix + "{1}"
	long := locktest.Obtain(t, onServer(t, s, handoff.Options{TTL: time.Minute}).ReadWrite().Read(), key)
	short := locktest.Obtain(t, onServer(t, s, handoff.Options{TTL: 20 * time.Second}).ReadWrite().Read(), key)
	if left := s.Client.PTTL(t.Context(), handoff.KeysOf(key).Readers).Val(); left > time.Minute || left < 30*time.Second {
		t.Errorf("the readers expire in %s, want a minute at most, and not with the shorter TTL", left)
	}
	released(t, long)
	released(t, short)
	nothingLeftOn(t, s, key)
}
