// Package redisbatch sends scripts to a Redis server; calls that are made at the same time share one write. So a busy process saves system
// calls on both sides, and a call that is made alone is sent at once.
//
// [Batcher] sends, [Call] is one call of a script. Start at [Batcher.Do].
//
// The client has a batcher too, AutoPipeline (go-redis 9.23). It is not used here because of what a caller must know about a script that
// changes something:
//
//   - AutoPipeline has one batch under way, so that one connection that hangs, or one slow script, holds up every caller until the client's
//     time-out.
//   - It executes its batches without a deadline of their own: a caller can stop waiting, but then it does not know when its command is over.
//   - A server that has lost its scripts answers NOSCRIPT to each call, and each caller sends the text by itself.
//   - The size of its batches is a target and not a bound, and its interface is marked as experimental.
//
// BenchmarkEvalSHA compares both with a client that sends no batches: one EVALSHA from each goroutine, Redis 7.0 on loopback, two cores
// that other programs used too. The numbers are medians of forty alternating rounds, relative to that client in the same round:
//
//	goroutines                      1      16      64     256
//	CPU of the client: AutoPipeline 1.73   0.50    0.20   0.14
//	                   this package 1.07   0.37    0.15   0.15
//	CPU of Redis:      AutoPipeline 1.17   0.34    0.22   0.15
//	                   this package 1.24   0.34    0.23   0.18
//	time:              AutoPipeline 1.44   0.48    0.25   0.12
//	                   this package 1.06   0.34    0.18   0.14
//
// The two do not differ in time by more than the noise from 64 goroutines on.
//
// There is one more optimization: a goroutine that gathers a batch lets others run first. Without it ("hasty" in the benchmark) the client
// takes 2.8 times as much CPU time with 16 goroutines, 2.3 times with 64, 1.5 times with 256, and 0.93 times with one. More batches in
// flight (16 instead of 4) are not faster; they are for connections that are stuck.
package redisbatch
