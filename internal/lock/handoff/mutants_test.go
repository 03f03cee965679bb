package handoff

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lastitem/internal/testkit/testenv"
)

// mutant is a defect that somebody might put into the engine, and the tests that find it.
type mutant struct {
	name  string
	edits []testenv.Edit
	kills []string // tests, each of which must fail; as for 'go test -run', and the first part is the whole name
	rows  []string // of the tables of transitions: what goes wrong there
}

var mutants = []mutant{
	{
		name: "an acquire does not check its tombstone",
		edits: []testenv.Edit{
			{"lua/acquire.lua", "call('EXISTS', KEYS[1], KEYS[2], KEYS[5]) == 0", "call('EXISTS', KEYS[1], KEYS[2]) == 0"},
			{"lua/acquire.lua", "(released or call('EXISTS', KEYS[5]) == 1)", "released"},
		},
		kills: []string{"TestEngineArrivesLate/acquire,_given_up$/fair"},
	},
	{
		name: "an acquire overtakes the queue",
		edits: []testenv.Edit{{
			"lua/acquire.lua", "call('EXISTS', KEYS[1], KEYS[2], KEYS[5]) == 0",
			"call('EXISTS', KEYS[1], KEYS[5]) == 0",
		}},
		kills: []string{"TestEngineNewcomerDoesNotOvertake"},
	},
	{
		name:  "a cancel leaves its token in the queue",
		edits: []testenv.Edit{{"lua/cancel.lua", "redis.call('ZREM', KEYS[2], ARGV[1])", ""}},
		kills: []string{"TestEngineCancelIsSentAgain/300ms"},
		rows:  []string{"queued + giving up -> idle"},
	},
	{
		name: "a cancel hands over the lock of another owner",
		edits: []testenv.Edit{{
			"lua/cancel.lua", "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0, 0} end", "",
		}},
		kills: []string{"TestEngineCancelIsSentAgain/300ms"},
	},
	{
		name: "a release hands over the lock of another owner",
		edits: []testenv.Edit{{
			"lua/release.lua", "if redis.call('GET', KEYS[1]) ~= ARGV[1] then",
			"if redis.call('EXISTS', KEYS[1]) == 0 then",
		}},
		kills: []string{"TestEngineLeavesForeignKeysAlone"},
	},
	{
		name: "a release is not remembered",
		edits: []testenv.Edit{{
			"lua/release.lua", "redis.call('RENAME', KEYS[1], KEYS[4])", "redis.call('DEL', KEYS[1])",
		}},
		kills: []string{"TestEngineRandomCuts/fair"},
		rows:  []string{"granted + release -> idle"},
	},
	{
		name: "a release queues an attempt that has ended",
		edits: []testenv.Edit{{
			"lua/release.lua", "ARGV[4] ~= '' and redis.call('EXISTS', KEYS[5]) == 0", "ARGV[4] ~= ''",
		}},
		kills: []string{"TestEngineArrivesLate/release_that_queues/handoff"},
	},
	{
		name: "a renewal renews the lock of another owner",
		edits: []testenv.Edit{{
			"lua/renew.lua", "elseif redis.pcall('GET', key) == ARGV[i + 1] then",
			"elseif redis.call('EXISTS', key) == 1 then",
		}},
		kills: []string{"TestEngineLeavesForeignKeysAlone"},
	},
	{
		name:  "a fence is raised for a holder that has lost the lock",
		edits: []testenv.Edit{{"lua/raise.lua", "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end", ""}},
		kills: []string{"TestEngineFencedLosesTheLock"},
	},
	{
		name: "an eviction takes the lock from the next holder",
		edits: []testenv.Edit{{
			"lua/force.lua", "if token == owner or redis.call('ZREM', readers, token) == 1 then",
			"if redis.call('ZREM', readers, token) >= 0 then",
		}},
		kills: []string{"TestForceReleaseWithoutAnAnswer"},
	},
	{
		name:  "a process without a subscription is granted the lock",
		edits: []testenv.Edit{{"lua/pass.lua", "channel)[2] > 0", "channel)[2] >= 0"}},
		kills: []string{"TestEngineSomebodyGetsInSoon/dead,_and"},
	},
	{
		name:  "a script skips all that are gone",
		edits: []testenv.Edit{{"lua/pass.lua", "more, taken = taken == most, taken + 1", "more = false"}},
		kills: []string{"TestEngineManyAreGone/fair", "TestEngineManyAreGone/rw-write"},
	},
	{
		name:  "each waiter of a silent process costs a grant",
		edits: []testenv.Edit{{"lua/pass.lua", "if ends and ends - now() < 10 and", "if false and"}},
		kills: []string{"TestEngineSilentProcessCostsOneGrant/fair/5"},
	},
	{
		name:  "a lost counter begins at one",
		edits: []testenv.Edit{{"lua/fence.lua", "t[1] * 1000000 + t[2]", "0"}},
		kills: []string{"TestEngineFenceHandedOverWithoutItsCounter"},
	},
	{
		name: "a grant reserves one fence for a whole cohort",
		edits: []testenv.Edit{{
			"lua/pass.lua", "reserve(string.match(token, '%.(%d+)%.%d+$'))", "reserve(1)",
		}},
		kills: []string{"TestForceRelease/handoff"},
	},
	{
		name: "a poll queues an attempt that has ended",
		edits: []testenv.Edit{{
			"lua/poll.lua", "local ended = redis.call('MGET', unpack(KEYS, 5))",
			"local ended = {} for i = 5, #KEYS do ended[i - 4] = false end",
		}},
		kills: []string{"TestEngineArrivesLate/poll,_given_up/fair"},
	},
	{
		name:  "a poll does not queue a token that has vanished",
		edits: []testenv.Edit{{"lua/poll.lua", "    enqueue(token)\n", ""}},
		kills: []string{"TestEngineSomebodyGetsInSoon/the_lock_and_the_queue_vanish"},
	},
	{
		name: "a reader gets in beside a writer",
		edits: []testenv.Edit{{
			"lua/rw_read.lua", "if not owner and not ended and", "if not ended and",
		}},
		kills: []string{"TestStateMachine/read-write"},
	},
	{
		name: "the acquire of a read does not check its tombstone",
		edits: []testenv.Edit{{
			"lua/rw_read.lua", "local owner, ended = seen[1], seen[2]", "local owner, ended = seen[1], false",
		}},
		kills: []string{"TestEngineArrivesLate/acquire,_held_twice_since/rw-read"},
	},
	{
		name: "a writer gets in beside readers",
		edits: []testenv.Edit{{
			"lua/rw_write.lua", "if reader_count() == 0 then return {2,", "if fence then return {2,",
		}},
		kills: []string{"TestStateMachine/read-write"},
		rows:  []string{"asking + reply -> draining"},
	},
	{
		name: "the acquire of a write does not check its tombstone",
		edits: []testenv.Edit{{
			"lua/rw_write.lua", "local owner, ended = seen[1], seen[3] or seen[2] == ARGV[1]",
			"local owner, ended = seen[1], seen[2] == ARGV[1]",
		}},
		kills: []string{"TestEngineArrivesLate/acquire,_held_twice_since/rw-write"},
	},
	{
		name: "a reader that has expired keeps a writer out",
		edits: []testenv.Edit{{
			"lua/rw_admit.lua", "ipairs(redis.call('ZRANGEBYSCORE', readers, '-inf', now(), 'LIMIT', 0, most))", "ipairs({})",
		}},
		kills: []string{"TestLeaseTimeOfTheDead/rw-read"},
	},
	{
		name:  "the first reader to leave lets the writer in",
		edits: []testenv.Edit{{"lua/rw_admit.lua", "if reader_count() > 0 then return end", ""}},
		kills: []string{"TestReadWriteBoundedWaitForReaders"},
		rows:  []string{"draining + message -> granted"},
	},
	{
		name: "a message that grants the write lock does not count the readers",
		edits: []testenv.Edit{{
			"lua/rw_admit.lua", "free, notified = false, notified + 1", "notified = notified + 1",
		}},
		kills: []string{"TestReadWriteOrder"},
		rows:  []string{"queued + message -> draining"},
	},
	{
		name:  "a read that is over leaves no tombstone",
		edits: []testenv.Edit{{"lua/rw_leave.lua", "redis.call('SET', KEYS[5], 1, 'PX', ARGV[4])", ""}},
		kills: []string{"TestEngineArrivesLate/acquire,_held_twice_since/rw-read"},
	},
	{
		name: "a release hands over the write lock of another owner",
		edits: []testenv.Edit{{
			"lua/rw_release.lua", "if redis.call('GET', KEYS[1]) ~= ARGV[1] then",
			"if redis.call('EXISTS', KEYS[1]) == 0 then",
		}},
		kills: []string{"TestForceRelease/rw-write"},
	},
	{
		name: "a renewal lets a lost reader in again",
		edits: []testenv.Edit{{
			"lua/rw_renew.lua", "if type(expiry) == 'string' and tonumber(expiry) > at then", "if true then",
		}},
		kills: []string{"TestForceReleaseOfAProcessThatNeverWaited/rw-read"},
	},
	{
		name: "a poll queues a reader or a writer whose attempt has ended",
		edits: []testenv.Edit{{
			"lua/rw_poll.lua", "local ended = redis.call('MGET', unpack(KEYS, 5, #KEYS - 1))", "local ended = {}",
		}},
		kills: []string{"TestForceReleaseOfAWaiterThatMissedItsGrant"},
	},
	{
		name: "a grant is used although little of its time is left",
		edits: []testenv.Edit{{
			"acquire.go", "case validUntil(0, c.ttl())-took >= c.grantTimeout()/4:",
			"case true:",
		}},
		kills: []string{"TestLoggerHearsOfLateGrants"},
		rows:  []string{"asking + reply -> granted"},
	},
	{
		name: "a lease counts from the reply",
		edits: []testenv.Edit{{
			"contender.go", "validUntil(sent, min(ttl, c.ttl()))", "validUntil(e.now(), min(ttl, c.ttl()))",
		}},
		kills: []string{"TestEngineLeaseCountsFromTheSending/told_by_a_message"},
		rows:  []string{"asking + message -> granted", "queued + message -> granted"},
	},
	{
		name: "a message about an earlier grant lets a waiter in",
		edits: []testenv.Edit{{
			"contender.go", "if late || serverTime < c.serverTime || ", "if late && serverTime < c.serverTime || ",
		}},
		kills: []string{"TestEngineStaleMessage"},
		rows:  []string{"queued + message -> asking"},
	},
	{
		name: "a message about an attempt that has ended is ignored",
		edits: []testenv.Edit{{
			"contender.go", "e.spawn(func() { e.cleaner.cancel(key, token) })\n\t\treturn\n", "return\n",
		}},
		kills: []string{"TestEngineSomebodyGetsInSoon/gone,_cancel_lost"},
	},
	{
		name: "a draining writer ignores messages",
		edits: []testenv.Edit{{
			"contender.go", "if c.state == granted || c.evicted {", "if c.state >= draining || c.evicted {",
		}},
		kills: []string{"TestEngineCosts"},
		rows:  []string{"draining + message -> draining"},
	},
	{
		name:  "an attempt that is given up is not cancelled",
		edits: []testenv.Edit{{"contender.go", "if cancel && !unsent {", "if cancel && unsent {"}},
		kills: []string{"TestEngineArrivesLate/acquire,_given_up$/fair"},
		rows:  []string{"asking + giving up -> idle"},
	},
	{
		name: "a writer whose wait runs out while it drains is not cancelled",
		edits: []testenv.Edit{{
			"readwrite.go", "a.sent+ttl*2/5))\n\tc.rejectOverdue(true)", "a.sent+ttl*2/5))\n\tc.rejectOverdue(false)",
		}},
		kills: []string{"TestReadWriteBoundedWaitForReaders"},
		rows:  []string{"draining + giving up -> idle"},
	},
	{
		name: "a waiter that leaves keeps what it was granted a moment ago",
		edits: []testenv.Edit{{
			"acquire.go", "if h := c.leave(w); h != nil {", "if h := c.leave(w); h != nil && h.entries == 0 {",
		}},
		kills: []string{"TestEngineGrantRacesWithCancel"},
	},
	{
		name: "a reply about an earlier token is taken for the present one",
		edits: []testenv.Edit{{
			"acquire.go", "if c.token != token || c.state != asking { // given up",
			"if c.state != asking { // given up",
		}},
		kills: []string{"TestReplyAboutAnEarlierAttempt"},
	},
	{
		name: "a waiter in the queue is not polled",
		edits: []testenv.Edit{{
			"acquire.go", "if c.waiters.size > 0 {\n\t\t\te.pollers.watch(c, a.ttl)",
			"if c.waiters.size < 0 {\n\t\t\te.pollers.watch(c, a.ttl)",
		}},
		kills: []string{"TestEngineSomebodyGetsInSoon/the_lock_and_the_queue_vanish"},
		rows:  []string{"asking + reply -> queued"},
	},
	{
		name: "a message that overtakes the reply is forgotten",
		edits: []testenv.Edit{{
			"acquire.go", "case queue && c.acquireAgain:", "case queue && c.acquireAgain && c.evicted:",
		}},
		kills: []string{"TestReadWriteMessageOvertakesAnswer/granted_the_write_lock"},
	},
	{
		name: "a process queues before it is subscribed",
		edits: []testenv.Edit{{
			"acquire.go", "queue := c.mayQueue() && e.subscriber.subscribed(c.key)", "queue := c.mayQueue()",
		}},
		kills: []string{"TestEngineMetrics"},
		rows:  []string{"idle + start -> asking"},
	},
	{
		name: "a message lets a writer in while readers are in",
		edits: []testenv.Edit{{
			"readwrite.go", "if mark == markDrain && c.mode == writing {",
			"if mark == markDrain && c.mode != writing {",
		}},
		kills: []string{"TestGrantFromBeforeAnEviction/draining"},
		rows:  []string{"asking + message -> draining"},
	},
	{
		name: "a draining writer does not check the readers",
		edits: []testenv.Edit{{
			"readwrite.go", "min(e.now()+e.pollers.next(a.ttl), a.sent+ttl*2/5)", "e.now()+a.ttl+a.sent+ttl*20",
		}},
		kills: []string{"TestLeaseTimeOfTheDead/rw-read"},
		rows:  []string{"draining + timer -> asking"},
	},
	{
		name:  "a grant from before an eviction is used",
		edits: []testenv.Edit{{"force.go", "c.evicted = true", "c.evicted = false"}},
		kills: []string{"TestGrantFromBeforeAnEviction"},
		rows:  []string{"asking + reply -> idle", "draining + message -> asking"},
	},
	{
		name: "a poll that finds a grant is ignored",
		edits: []testenv.Edit{{
			"poll.go", "case slices.Contains(found, c.token):", "case slices.Contains(found, c.key):",
		}},
		kills: []string{"TestEngineSomebodyGetsInSoon/its_messages_are_lost"},
		rows:  []string{"queued + poll -> asking"},
	},
	{
		name: "an attempt is not cancelled after a poll that was not answered",
		edits: []testenv.Edit{{
			"poll.go", "c.mayArriveLate = c.mayArriveLate || unanswered",
			"c.mayArriveLate = c.mayArriveLate && unanswered",
		}},
		kills: []string{"TestEngineArrivesLate/poll,_granted_after_the_repetition/fair"},
	},
	{
		name:  "a renewal does not notice another owner",
		edits: []testenv.Edit{{"renew.go", "case number(v[i]) == 0 || !c.extend(", "case !c.extend("}},
		kills: []string{"TestForceReleaseOfAProcessThatNeverWaited/handoff"},
		rows:  []string{"active -> lost: its end has come, or a renewal finds another owner"},
	},
	{
		name: "the attempt of a lost lease is not cancelled",
		edits: []testenv.Edit{{
			"lease.go", "h.cancelled = h.mayArriveLate || c.lease > 0", "h.cancelled = c.lease > 0",
		}},
		kills: []string{"TestEngineArrivesLate/acquire,_lost/fair"},
		rows:  []string{"granted + loss -> idle"},
	},
	{
		name:  "a cohort is not bounded",
		edits: []testenv.Edit{{"lease.go", "c.waiters.size > 0 && c.fence <= c.last &&", "c.waiters.size > 0 &&"}},
		kills: []string{"TestEngineCohortIsBounded/one"},
		rows:  []string{"active -> ended: its last entry is released and a waiter is served"},
	},
	{
		name:  "the holders of a cohort have the same fence",
		edits: []testenv.Edit{{"contender.go", "c.fence++", ""}},
		kills: []string{"TestEngineScriptsSentTwice/handoff"},
	},
	{
		name:  "a release that finds another owner succeeds",
		edits: []testenv.Edit{{"lease.go", "case released == 1:", "case released >= 0:"}},
		kills: []string{"TestEngineNewcomerDoesNotOvertake"},
		rows:  []string{"ended -> lost: the release finds another owner"},
	},
	{
		name:  "a release that was not answered is not repeated",
		edits: []testenv.Edit{{"lease.go", "e.cleaner.later(c.key, h.token, e.now(), a.err)", ""}},
		kills: []string{"TestEngineCleanupIsNotCrowdedOut"},
	},
	{
		name:  "a cancel that was not answered is not repeated",
		edits: []testenv.Edit{{"cleanup.go", "cl.later(key, token, ended, r.err)", ""}},
		kills: []string{"TestEngineCancelIsSentAgain/2.4s"},
	},
	{
		name:  "the first of several entries to leave releases the lock",
		edits: []testenv.Edit{{"lease.go", "inner, lost := h.entries > 0,", "inner, lost := h.entries > 1,"}},
		kills: []string{"TestEngineReentry"},
		rows:  []string{"active -> ended: its last entry is released"},
	},
	{
		name: "a lock with a lease time is renewed",
		edits: []testenv.Edit{{
			"lease.go", "if c.lease > 0 && ttl >= c.lease {", "if c.lease > 0 && ttl > c.lease {",
		}},
		kills: []string{"TestLeaseTimeIsNotRenewed/fair"},
	},
	{
		name: "a lease outlives MaxHold",
		edits: []testenv.Edit{{
			"lease.go", "min(c.validUntil, c.hold.since+most)", "min(c.validUntil, c.hold.since+2*most)",
		}},
		kills: []string{"TestEngineMaxHold"},
	},
	{
		name: "the holds are not checked after a reconnect",
		edits: []testenv.Edit{{
			"renew.go", "case c.state == granted && !c.renewing:", "case c.state == granted && c.renewing:",
		}},
		kills: []string{"TestEngineReconnectRenewsHolds/fair/listens"},
	},
	{
		name:  "an engine that is closed keeps its locks",
		edits: []testenv.Edit{{"engine.go", "held = append(held, c.hold)", ""}},
		kills: []string{"TestEngineCloseWithoutServer"},
		rows:  []string{"active -> ended: the engine is closed"},
	},
}

// TestMutants: each mutant can still be put into the sources, and each row of the tables and each script that changes
// something has one. 'make engine-mutants' has the tests find them.
func TestMutants(t *testing.T) {
	t.Parallel()
	have := map[string]bool{}
	for _, m := range mutants {
		for _, e := range m.edits {
			have[e[0]] = true
		}
		for _, row := range m.rows {
			have[row] = true
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			testenv.Edited(t, ".", m.edits)
			if len(m.kills) == 0 {
				t.Error("no test must find it")
			}
		})
	}
	want := map[string]bool{}
	for _, r := range transitions {
		want[fmt.Sprintf("%s + %s -> %s", stateNames[r.from], eventNames[r.because], stateNames[r.to])] = true
	}
	for _, r := range holdTransitions {
		want[fmt.Sprintf("%s -> %s: %s", holdStateNames[r.from], holdStateNames[r.to], r.because)] = true
	}
	for _, m := range mutants {
		for _, row := range m.rows {
			if !want[row] {
				t.Errorf("%s: the tables have no row %q", m.name, row)
			}
		}
	}
	scripts, err := filepath.Glob("lua/*.lua")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	for _, file := range scripts {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want[file] = !strings.Contains(string(text), "It changes nothing.")
	}
	for name, must := range want {
		if must && !have[name] {
			t.Errorf("no mutant of %q", name)
		}
	}
}
