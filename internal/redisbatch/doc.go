// Package redisbatch sends scripts to a Redis server; calls that are made at the same time share one write. So a busy
// process saves system calls on both sides, and a call that is made alone is sent at once.
//
// [Batcher] sends, [Call] is one call of a script. Start at [Batcher.Do].
//
// The client has a batcher too, AutoPipeline (go-redis 9.23). It is not used here because of what a caller must know
// about a script that changes something:
//
//   - AutoPipeline has one batch under way, so that one connection that hangs, or one slow script, holds up every
//     caller until the client's time-out.
//   - It executes its batches without a deadline of their own: a caller can stop waiting, but then it does not know
//     when its command is over.
//   - A server that has lost its scripts answers NOSCRIPT to each call, and each caller sends the text by itself.
//   - The size of its batches is a target and not a bound, and its interface is marked as experimental.
//
// BenchmarkEvalSHA compares both with a client that sends no batches: one EVALSHA from each goroutine, Redis 7.0 on
// loopback, two cores that did nothing else. The numbers are medians of thirty alternating rounds, relative to that
// client in the same round:
//
//	goroutines                      1      16      64     256
//	CPU of the client: AutoPipeline 1.31   0.60    0.30   0.20
//	                   this package 1.10   0.54    0.25   0.18
//	CPU of Redis:      AutoPipeline 0.87   0.34    0.20   0.18
//	                   this package 0.90   0.44    0.24   0.19
//	time:              AutoPipeline 0.90   0.77    0.39   0.29
//	                   this package 0.87   0.55    0.25   0.20
//
// There are two more optimizations. A goroutine that gathers a batch lets others run first if a batch is in flight.
// Without it ("hasty" in the benchmark) the client takes 1.42 times as much CPU time with 16 goroutines, 1.15 times
// with 64, 1.04 times with 256, and 0.88 times with one. Where all processors are busy, a yield waits for the whole
// run queue. So a call that is made alone never yields, and no call does in the second after a yield of more than 5
// ms. Beside 32 busy goroutines (BenchmarkBusy) a call alone has a median of 0.02 ms, as with the client alone; if it
// always yielded, 1.3 s on one processor, 0.6 s on two.
//
// A batch takes only a share of many calls. If it takes all ("whole"), all callers wait for Redis, and then Redis for
// all callers. BenchmarkPair, whose callers do some work between their calls, then takes 1.11 times as long (12 rounds,
// p < 0.01) with the same CPU time. Callers that do nothing else gain no time from the shares, and without them 16
// goroutines take 0.90 of the CPU time.
package redisbatch
