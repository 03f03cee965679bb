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
	{"a server that is not ready is asked three times", "server.go", "return beginsWith(err, \"TRYAGAIN \"",
		"return false && beginsWith(err, \"TRYAGAIN \"", "TestEngineAsksAgain/TRYAGAIN", ""},
	{"a server that may evict locks is not noticed", "check.go", "if err == nil && policy", "if err != nil && policy",
		"TestEngineCheck/evicts$", ""},
	{"a key whose slot nobody knows is sent", "acquire.go", "strings.Contains(key, \"}\"))",
		"strings.Contains(key, \"}}\"))", "TestEngineErrors", ""},
	{"a job after a release is told of a loss", "lease.go", "return false, nil\n\tcase h.entries",
		"return false, lock.ErrLost\n\tcase h.entries", "TestEngineAcquireAfterRelease", ""},
	{"a job after a loss gets a lock of its own", "lease.go", "case h.entries == 0 && h.state != holdLost && !ended",
		"case h.entries == 0 && !ended", "TestEngineAcquireAfterLoss", ""},
	{"a caller that has left hears of the resource", "fenced.go", "if lock.Ended(ctx) {", "if false {",
		"TestEngineFencedEndsWithItsCaller", ""},
	{"a message goes to another version", "lua/pass.lua", "if foreign(token) then return nil end", "",
		"TestAnotherVersionIsRefused", ""},
	{"a reader is not told who was in beside it", "lease.go", "case errors.Is(a.err, ErrVersion):", "case false:",
		"TestReaderMeetsAnOwnerThatIsNoToken", ""},
	{"a TTL may be too short", "engine.go", "case o.TTL < minTTL:", "case false:", "TestNewRefuses", ""},
	{"a lock is not passed on within a process", "lease.go", "return c.waiters.size > 0 && c.fence",
		"return false && c.fence", "TestEngineContendedCommands/handoff", ""},
	{"a command is sent once", "server.go", "r.tries == maxTries ||", "r.tries == 1 ||", "TestEngineLostAnswers", ""},
	{"nobody counts the replicas", "server.go", "n < int64(s.o.Replicas)", "n < 0", "TestEngineReplicasShort", ""},
	{"the fencing counter stays for ever", "lua/fence.lua", "call('PEXPIRE', KEYS[3], keep)", "",
		"TestEngineFenceWithoutItsCounter", ""},
	{"a fence that the resource has seen is given out", "lua/raise.lua", "math.max(counter(), ARGV[4] + ARGV[5])",
		"counter()", "TestEngineFenced", ""},
	{"the clock is read after the grant", "lua/pass.lua", "now() return began end",
		"now() redis.call('TIME') return began end", "TestGrantIsNoYoungerThanItsMessage", ""},
	{"the fence is not shown", "inspect.go", "found.Fence, _ = strconv", "_, _ = strconv", "TestEngineInspect", ""},
	{"a reader is listed as a writer", "inspect.go", "reader.Reads = true", "reader.Reads = false",
		"TestEngineInspectReadWrite", ""},
	{"a host is shown as its token has it", "keys.go", "host, _ = url.PathUnescape(part[3])",
		"host, _ = part[3], url.PathUnescape", "TestEngineInspectNamesHosts", ""},
	{"an operator's own process is not told", "force.go", "e.onEvicted(tokens[i]) //", "_ = i //",
		"TestForceReleaseInTheHoldersProcess", ""},
	{"a hundred readers at most are evicted", "force.go", "range slices.Chunk(found.Holders, ",
		"range slices.Chunk(found.Holders[:min(len(found.Holders), forceSize)], ", "TestForceReleaseOfReaders", ""},
	{"a release queues a process that does not listen", "lease.go",
		"if c.waiters.size > 0 && c.e.subscriber.subscribed(c.key)", "if c.waiters.size > 0",
		"TestEngineSubscribesBeforeItQueues", ""},
	{"a waiter that has vanished suspects nothing", "poll.go", "if vanished {", "if vanished && c == nil {",
		"TestEngineReplacesAnAbandonedConnection", ""},
	{"a grant that a poll finds suspects nothing", "poll.go", "ps.missed(c)\n\t\t\tc.reacquire", "c.reacquire",
		"TestEngineReplacesAHalfOpenConnection", ""},
	{"a waiter that was served has vanished", "poll.go", "a.fence > unqueued", "a.fence > 0*unqueued",
		"TestEngineKeepsAConnectionThatMissedNothing", ""},
	{"a lock that was deleted makes its process silent", "lua/pass.lua", "if ends and ends - now() < 10 and",
		"if ends and", "TestEngineLapseSkipsOnlySilentProcesses", ""},
	{"an attempt that has ended is remembered", "contender.go", "delete(e.attempts, c.token)", "",
		"TestEngineLeavesNothingBehind", ""},
	{"a handover looks at each waiter", "lua/pass.lua", "local function hand_over(mine)",
		"local function hand_over(mine) for i = 1, call('ZCARD', KEYS[2]) do call('GET', KEYS[1]) end",
		"TestEngineHandoffCostsTheSameInALongQueue", ""},
	{"a cleanup is tried for ever", "cleanup.go", "> max(cl.e.o.TTL, minCleanupAge):",
		"> 99*max(cl.e.o.TTL, minCleanupAge):", "TestEngineCleanupsEnd", ""},
	{"a wrong type breaks the renewals beside it", "lua/renew.lua", "elseif redis.pcall(", "elseif redis.call(",
		"TestEngineRenewsBesideAWrongType", ""},
	{"a TTL that is too short is tried for ever", "acquire.go", "c.lateGrants < maxTries {", "c.lateGrants <= 255 {",
		"TestEngineTTLShorterThanARoundTrip/fair", ""},
	{"an attempt has a minute after the wait", "acquire.go", "timer.Reset(e.o.attemptLimit())", "timer.Reset(time.Minute)",
		"TestEngineWithWaitOnHungRedis/fair", ""},
	{"a caller that leaves ends the wait of others", "contender.go",
		"if c.waiters.remove(&w.place) && c.waiters.size == 0 &&", "if c.waiters.remove(&w.place) &&",
		"TestEngineTryLeavesOthersWaiting", ""},
	{"what was sent before is not cancelled", "contender.go", "Withdraw(c.acquire) && !c.asked", "Withdraw(c.acquire)",
		"TestEngineUnsentAcquiresAreWithdrawn/fair", ""},
	{"an overtaken acquire cannot arrive late", "contender.go", "c.state == asking && (c.reacquired ||",
		"c.state == asking && (", "TestOvertakenAcquireMayArriveLate", ""},
	{"an unanswered release cannot arrive late", "lease.go", "c.mayArriveLate = c.mayArriveLate || a.err != nil\n", "",
		"TestUnansweredReleaseMayArriveLate", ""},
	{"the client's shortest pause is its first", "server.go", "min(minPause, maxPause)", "minPause",
		"TestClientThatRepeats", ""},
	{"a member leaves another's queue", "fifo.go", "if p.queue != q {", "if p.queue == nil {", "TestFifo", ""},
	{"a late poll shortens a lease time", "lua/poll.lua", "if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2])", "if true",
		"TestEngineLatePollKeepsTheLeaseTime", ""},
	{"a repeated acquire goes to the end", "lua/pass.lua", "KEYS[2], 'NX', ", "KEYS[2], ",
		"TestEngineRepeatedAcquireKeepsItsPlace", ""},
	{"a token does not tell a lease time", "keys.go", "number = \".L\"", "number = \".\"",
		"TestLeaseTimeOfAReaderSilencesNobody", ""},
	{"a renewal restarts the lease time", "lease.go", "(c.leaseBegan + c.lease - c.e.now()).Milli", "c.lease.Milli",
		"TestLeaseTimeAfterAWait", ""},
	{"a re-entry has a lease time of its own", "lease.go", "refused != nil && h.c.lease == 0",
		"refused != nil && h.c.lease < 0", "TestLeaseTimeAndReentry", ""},
	{"a context relies on the timer", "lease.go", "lock.Clocked(ended, h.expireIfDue), cancel", "ended, cancel",
		"TestContextEndsWithoutTheTimer", ""},
	{"a late context ends with its caller's", "lease.go", "parent = context.WithoutCancel(parent)", "_ = parent",
		"TestEngineContextMadeLate", ""},
	{"each caller gets a context of its own", "lease.go", "if h.ctx == nil {", "if true {",
		"TestEngineContextOfManyCallers", ""},
	{"one that is skipped is not counted", "report.go", "if n > 0 {", "if n > 1 {", "TestEngineMetricsOfFailures", ""},
	{"each trouble has a line", "report.go", "now-b.last[t] < logInterval", "now-b.last[t] < 0", "TestLoggerIsBounded",
		""},
	{"nobody hears of a lost subscription", "subscriber.go", "s.e.log.report(resubscribed, \"\", nil)", "",
		"TestLoggerHearsOfMessagesAndCancels", ""},
	{"a lock without readers is entered to write", "readwrite.go", "return !other.shares()", "return true",
		"TestReadWriteReentry", ""},
	{"the readers last as long as the last to come", "lua/rw_read.lua",
		"if redis.call('PTTL', KEYS[#KEYS]) < tonumber(ARGV[2])", "if true", "TestReadWriteReadersExpire", ""},
	{"each reader lets one in", "lua/rw_admit.lua", "messages = KEYS[#KEYS], 100", "messages = KEYS[#KEYS], 1",
		"TestReadWriteManyReadersAtOnce", ""},
	{"a lost renewal is sent again too late", "renew.go", "limit = left / 2", "limit = left",
		"TestEngineLostRenewalIsSentAgain", ""},
	{"MaxHold hurries the renewals of others", "renew.go", "left := c.validUntil", "left := c.leaseEnd()",
		"TestEngineMaxHoldSpoilsNoRenewal", ""},
	{"each lock is renewed at its own time", "renew.go", "<= now+k.e.o.TTL/10", "<= now", "TestEngineRenewalsAreShared",
		""},
	{"polls stay together", "poll.go", "d -= rand.N(d / 8)", "_ = rand.N(d)", "TestEnginePollsOfManyKeysSpreadOut", ""},
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
