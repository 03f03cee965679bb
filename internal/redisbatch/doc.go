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
// that other programs used too. The numbers are medians of ten alternating rounds, relative to that client:
//
//	goroutines                      1      16      64     256
//	CPU of the client: AutoPipeline 3.03   1.28    0.39   0.34
//	                   this package 1.34   0.59    0.24   0.37
//	CPU of Redis:      AutoPipeline 1.29   0.58    0.37   0.39
//	                   this package 1.07   0.58    0.37   0.42
//	time:              AutoPipeline 2.03   1.47    0.45   0.97
//	                   this package 1.08   0.90    0.30   0.69
//
// The machine was so busy that the times are rough. An earlier series has the same ranking, except that AutoPipeline was faster with 256
// goroutines. With a round trip of 5 ms and 256 goroutines both take a tenth of the time of the client without batches, and they differ by
// less than the noise.
//
// There is one more optimization: a goroutine that gathers a batch lets others run first. Without it the client takes 1.9 times as much CPU
// with 16 or 64 goroutines, and 0.8 times as much with one. More batches in flight (16 instead of 4) are not faster; they are for
// connections that are stuck.
package redisbatch
