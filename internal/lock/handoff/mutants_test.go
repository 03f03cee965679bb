package handoff

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// mutant is a defect that somebody might put into the engine, and the tests that find it.
type mutant struct {
	name, file, from, to string
	kills                string // tests, each of which must fail; as for 'go test -run', after a whole name
	rows                 string // of the tables of transitions: what goes wrong there
}

func (m mutant) edits() []testenv.Edit { return []testenv.Edit{{m.file, m.from, m.to}} }

// each are the parts of kills or of rows.
func each(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ';' })
}

var mutants = []mutant{
	{"an acquire does not check its tombstone", "lua/acquire.lua", "local released = ",
		"KEYS[5] = 'none' local released = ", "TestEngineArrivesLate/acquire,_given_up$/fair", ""},
	{"an acquire overtakes the queue", "lua/acquire.lua", "call('EXISTS', KEYS[1], KEYS[2], KEYS[5]) == 0",
		"call('EXISTS', KEYS[1], KEYS[5]) == 0", "TestEngineSomebodyGetsInSoon/the_lock_is_lost,_and_a_newcomer", ""},
	{"a cancel leaves its token in the queue", "lua/cancel.lua", "redis.call('ZREM', KEYS[2], ARGV[1])", "",
		"TestEngineSomebodyGetsInSoon/gone,_cancelled_after_300ms", "queued + giving up -> idle"},
	{"a cancel hands over the lock of another owner", "lua/cancel.lua",
		"if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0, 0} end", "",
		"TestEngineSomebodyGetsInSoon/gone,_cancelled_after_300ms", ""},
	{"a release hands over the lock of another owner", "lua/release.lua", "if redis.call('GET', KEYS[1]) ~= ARGV[1] then",
		"if redis.call('EXISTS', KEYS[1]) == 0 then", "TestEngineLeavesForeignKeysAlone", ""},
	{"a release is not remembered", "lua/release.lua", "redis.call('RENAME', KEYS[1], KEYS[4])",
		"redis.call('DEL', KEYS[1])", "TestEngineRandomCuts/fair", "granted + release -> idle"},
	{"a release queues an attempt that has ended", "lua/release.lua",
		"ARGV[4] ~= '' and redis.call('EXISTS', KEYS[5]) == 0", "ARGV[4] ~= ''",
		"TestEngineArrivesLate/release_that_queues/handoff", ""},
	{"a renewal renews the lock of another owner", "lua/renew.lua", "elseif redis.pcall('GET', key) == ARGV[i + 1] then",
		"elseif redis.call('EXISTS', key) == 1 then", "TestEngineLeavesForeignKeysAlone", ""},
	{"a fence is raised for a holder that has lost the lock", "lua/raise.lua",
		"if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end", "", "TestEngineFencedLosesTheLock", ""},
	{"an eviction takes the lock from the next holder", "lua/force.lua",
		"if token == owner or redis.call('ZREM', readers, token) == 1 then",
		"if redis.call('ZREM', readers, token) >= 0 then", "TestForceReleaseWithoutAnAnswer", ""},
	{"a process without a subscription is granted the lock", "lua/pass.lua", "channel)[2] > 0", "channel)[2] >= 0",
		"TestEngineSomebodyGetsInSoon/dead,_and", ""},
	{"a script skips all that are gone", "lua/pass.lua", "more, taken = taken == most, taken + 1", "more = false",
		"TestEngineManyAreGone/fair;TestEngineManyAreGone/rw-write", ""},
	{"each waiter of a silent process costs a grant", "lua/pass.lua", "if ends and ends - now() < 10 and", "if false and",
		"TestEngineSilentProcessCostsOneGrant/fair/5", ""},
	{"a lost counter begins at one", "lua/fence.lua", "t[1] * 1000000 + t[2]", "0",
		"TestEngineTicketsOutliveAWaiter", ""},
	{"a grant reserves one fence for a whole cohort", "lua/pass.lua", "reserve(string.match(token, '%.(%d+)%.%d+$'))",
		"reserve(1)", "TestForceRelease/handoff", ""},
	{"a poll queues an attempt that has ended", "lua/poll.lua", "local ended = redis.call('MGET', unpack(KEYS, 5))",
		"local ended = {} for i = 5, #KEYS do ended[i - 4] = false end", "TestEngineArrivesLate/poll,_given_up/fair", ""},
	{"a poll does not queue a token that has vanished", "lua/poll.lua", "    enqueue(token)\n", "",
		"TestEngineSomebodyGetsInSoon/the_lock_and_the_queue_vanish", ""},
	{"a reader gets in beside a writer", "lua/rw_read.lua", "if not owner and not ended and", "if not ended and",
		"TestStateMachine/read-write", ""},
	{"the acquire of a read does not check its tombstone", "lua/rw_read.lua", "local owner, ended = seen[1], seen[2]",
		"local owner, ended = seen[1], false", "TestEngineArrivesLate/acquire,_held_twice_since/rw-read", ""},
	{"a writer gets in beside readers", "lua/rw_write.lua", "if reader_count() == 0 then return {2,",
		"if fence then return {2,", "TestStateMachine/read-write", "asking + reply -> draining"},
	{"the acquire of a write does not check its tombstone", "lua/rw_write.lua",
		"local owner, ended = seen[1], seen[3] or seen[2] == ARGV[1]", "local owner, ended = seen[1], seen[2] == ARGV[1]",
		"TestEngineArrivesLate/acquire,_held_twice_since/rw-write", ""},
	{"a reader that has expired keeps a writer out", "lua/rw_admit.lua",
		"ipairs(redis.call('ZRANGEBYSCORE', readers, '-inf', now(), 'LIMIT', 0, most))", "ipairs({})",
		"TestLeaseTimeOfTheDead/rw-read", ""},
	{"the first reader to leave lets the writer in", "lua/rw_admit.lua", "if reader_count() > 0 then return end", "",
		"TestReadWriteBoundedWaitForReaders", "draining + message -> granted"},
	{"a message that grants the write lock does not count the readers", "lua/rw_admit.lua",
		"free, notified = false, notified + 1", "notified = notified + 1", "TestReadWriteOrder",
		"queued + message -> draining"},
	{"a read that is over leaves no tombstone", "lua/rw_leave.lua", "redis.call('SET', KEYS[5], 1, 'PX', ARGV[4])", "",
		"TestEngineArrivesLate/acquire,_held_twice_since/rw-read", ""},
	{"a release hands over the write lock of another owner", "lua/rw_release.lua",
		"if redis.call('GET', KEYS[1]) ~= ARGV[1] then", "if redis.call('EXISTS', KEYS[1]) == 0 then",
		"TestForceRelease/rw-write", ""},
	{"a renewal lets a lost reader in again", "lua/rw_renew.lua",
		"if type(expiry) == 'string' and tonumber(expiry) > at then", "if true then",
		"TestForceReleaseOfAProcessThatNeverWaited/rw-read", ""},
	{"a poll queues a reader or a writer whose attempt has ended", "lua/rw_poll.lua",
		"local ended = redis.call('MGET', unpack(KEYS, 5, #KEYS - 1))", "local ended = {}",
		"TestForceReleaseOfAWaiterThatMissedItsGrant", ""},
	{"a grant is used although little of its time is left", "acquire.go",
		"case validUntil(0, c.ttl())-took >= c.grantTimeout()/4:", "case true:", "TestLoggerHearsOfLateGrants",
		"asking + reply -> granted"},
	{"a lease counts from the reply", "contender.go", "validUntil(sent, min(ttl, c.ttl()))",
		"validUntil(e.now(), min(ttl, c.ttl()))", "TestEngineLeaseCountsFromTheSending/told_by_a_message",
		"asking + message -> granted;queued + message -> granted"},
	{"a message about an earlier grant lets a waiter in", "contender.go", "if late || serverTime < c.serverTime || ",
		"if late && serverTime < c.serverTime || ", "TestEngineMessageArrivesLate", "queued + message -> asking"},
	{"a message about an attempt that has ended is ignored", "contender.go",
		"e.spawn(func() { e.cleaner.cancel(key, token) })\n\t\treturn\n", "return\n",
		"TestEngineSomebodyGetsInSoon/gone,_cancel_lost", ""},
	{"a draining writer ignores messages", "contender.go", "if c.state == granted || c.evicted {",
		"if c.state >= draining || c.evicted {", "TestEngineCosts", "draining + message -> draining"},
	{"an attempt that is given up is not cancelled", "contender.go", "if cancel && !unsent {", "if cancel && unsent {",
		"TestEngineArrivesLate/acquire,_given_up$/fair", "asking + giving up -> idle"},
	{"a writer whose wait runs out while it drains is not cancelled", "readwrite.go",
		"a.sent+ttl*2/5))\n\tc.rejectOverdue(true)", "a.sent+ttl*2/5))\n\tc.rejectOverdue(false)",
		"TestReadWriteBoundedWaitForReaders", "draining + giving up -> idle"},
	{"a waiter that leaves keeps what it was granted a moment ago", "acquire.go", "if h := c.leave(w); h != nil {",
		"if h := c.leave(w); h != nil && h.entries == 0 {", "TestEngineGrantRacesWithCancel", ""},
	{"a reply about an earlier token is taken for the present one", "acquire.go",
		"if c.token != token || c.state != asking { // given up", "if c.state != asking { // given up",
		"TestReplyAboutAnEarlierAttempt", ""},
	{"a waiter in the queue is not polled", "acquire.go", "if c.waiters.size > 0 {\n\t\t\te.pollers.watch(c, a.ttl)",
		"if c.waiters.size < 0 {\n\t\t\te.pollers.watch(c, a.ttl)",
		"TestEngineSomebodyGetsInSoon/the_lock_and_the_queue_vanish", "asking + reply -> queued"},
	{"a message that overtakes the reply is forgotten", "acquire.go", "case queue && c.acquireAgain:",
		"case queue && c.acquireAgain && c.evicted:", "TestReadWriteMessageOvertakesAnswer/granted_the_write_lock", ""},
	{"a process queues before it is subscribed", "acquire.go", "queue := c.mayQueue() && e.subscriber.subscribed(c.key)",
		"queue := c.mayQueue()", "TestEngineMetrics", "idle + start -> asking"},
	{"a message lets a writer in while readers are in", "readwrite.go", "if mark == markDrain && c.mode == writing {",
		"if mark == markDrain && c.mode != writing {", "TestGrantFromBeforeAnEviction/draining",
		"asking + message -> draining"},
	{"a draining writer does not check the readers", "readwrite.go", "min(e.now()+e.pollers.next(a.ttl), a.sent+ttl*2/5)",
		"e.now()+a.ttl+a.sent+ttl*20", "TestLeaseTimeOfTheDead/rw-read", "draining + timer -> asking"},
	{"a grant from before an eviction is used", "force.go", "c.evicted = true", "c.evicted = false",
		"TestGrantFromBeforeAnEviction", "asking + reply -> idle;draining + message -> asking"},
	{"a poll that finds a grant is ignored", "poll.go", "case slices.Contains(found, c.token):",
		"case slices.Contains(found, c.key):", "TestEngineSomebodyGetsInSoon/its_messages_are_lost",
		"queued + poll -> asking"},
	{"an attempt is not cancelled after a poll that was not answered", "poll.go",
		"c.mayArriveLate = c.mayArriveLate || unanswered", "c.mayArriveLate = c.mayArriveLate && unanswered",
		"TestEngineArrivesLate/poll,_granted_after_the_repetition/fair", ""},
	{"a renewal does not notice another owner", "renew.go", "case number(v[i]) == 0 || !c.extend(", "case !c.extend(",
		"TestForceReleaseOfAProcessThatNeverWaited/handoff",
		"active -> lost: its end has come, or a renewal finds another owner"},
	{"the attempt of a lost lease is not cancelled", "lease.go", "h.cancelled = h.mayArriveLate || c.lease > 0",
		"h.cancelled = c.lease > 0", "TestEngineArrivesLate/acquire,_lost/fair", "granted + loss -> idle"},
	{"a cohort is not bounded", "lease.go", "c.waiters.size > 0 && c.fence <= c.last &&", "c.waiters.size > 0 &&",
		"TestEngineCohortIsBounded/one", "active -> ended: its last entry is released and a waiter is served"},
	{"the holders of a cohort have the same fence", "contender.go", "c.fence++", "", "TestEngineScriptsSentTwice/handoff",
		""},
	{"a release that finds another owner succeeds", "lease.go", "case released == 1:", "case released >= 0:",
		"TestEngineSomebodyGetsInSoon/the_lock_is_lost,_and_a_newcomer", "ended -> lost: the release finds another owner"},
	{"a release that was not answered is not repeated", "lease.go", "e.cleaner.later(c.key, h.token, e.now(), a.err)", "",
		"TestEngineCleanupIsNotCrowdedOut", ""},
	{"a cancel that was not answered is not repeated", "cleanup.go", "cl.later(key, token, ended, r.err)", "",
		"TestEngineSomebodyGetsInSoon/gone,_cancelled_after_2.4s", ""},
	{"the first of several entries to leave releases the lock", "lease.go", "inner, lost := h.entries > 0,",
		"inner, lost := h.entries > 1,", "TestEngineReentry", "active -> ended: its last entry is released"},
	{"a lock with a lease time is renewed", "lease.go", "if c.lease > 0 && ttl >= c.lease {",
		"if c.lease > 0 && ttl > c.lease {", "TestLeaseTimeIsNotRenewed/fair", ""},
	{"a lease outlives MaxHold", "lease.go", "min(c.validUntil, c.hold.since+most)",
		"min(c.validUntil, c.hold.since+2*most)", "TestEngineMaxHold", ""},
	{"the holds are not checked after a reconnect", "renew.go", "case c.state == granted && !c.renewing:",
		"case c.state == granted && c.renewing:", "TestEngineReconnectRenewsHolds/fair/listens", ""},
	{"an engine that is closed keeps its locks", "engine.go", "held = append(held, c.hold)", "",
		"TestEngineCloseWithoutServer", "active -> ended: the engine is closed"},
}

// TestMutants: each mutant can still be put into the sources, and each row of the tables and each script that changes
// something has one. 'make engine-mutants' has the tests find them.
func TestMutants(t *testing.T) {
	t.Parallel()
	have := map[string]bool{}
	for _, m := range mutants {
		have[m.file] = true
		for _, row := range each(m.rows) {
			have[row] = true
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			testenv.Edited(t, ".", m.edits())
			if len(m.kills) == 0 {
				t.Error("no test must find it")
			}
		})
	}
	want := map[string]bool{}
	maps.Copy(want, transitions)
	maps.Copy(want, holdTransitions)
	for _, m := range mutants {
		for _, row := range each(m.rows) {
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
		text := testkit.Read(t, file)
		want[file] = !strings.Contains(string(text), "It changes nothing.")
	}
	for name, must := range want {
		if must && !have[name] {
			t.Errorf("no mutant of %q", name)
		}
	}
}
