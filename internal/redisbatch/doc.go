// Package redisbatch sends scripts to a Redis, those that come at the same time in one write. So a busy process shares system calls, on its side
// and on the server's, and a call that comes alone goes at once.
//
// [Batcher] is what sends, [Call] is one script. Start at [Batcher.Do].
//
// It is not the client's own AutoPipeline (go-redis 9.23), because of what a caller must know about a script that changes something:
//
//   - AutoPipeline has one batch under way, so that one connection that hangs, or one slow script, holds up every caller until the client's
//     time-out.
//   - It executes its batches without a deadline of their own: a caller can stop waiting, but then it does not know when its command is over.
//   - A server that has lost its scripts answers NOSCRIPT to each call, and each caller sends the text by itself.
//   - The size of its batches is a target and not a bound, and its interface is marked as experimental.
//
// BenchmarkEvalSHA compares them: one EVALSHA from each of so many goroutines, Redis 7.0 on loopback, two cores that other programs used too.
// Medians of ten rounds in turn, as shares of the client without batches:
//
//	goroutines                      1      16      64     256
//	CPU of the client: AutoPipeline 3.03   1.28    0.39   0.34
//	                   this package 1.34   0.59    0.24   0.37
//	CPU of Redis:      AutoPipeline 1.29   0.58    0.37   0.39
//	                   this package 1.07   0.58    0.37   0.42
//	time:              AutoPipeline 2.03   1.47    0.45   0.97
//	                   this package 1.08   0.90    0.30   0.69
//
// The machine was so busy that times are rough; an earlier series has the same order but for 256 goroutines, where AutoPipeline was faster. Where
// the round trip takes 5 ms, both take a tenth of the time of the client without batches with 256 goroutines, and differ by less than the noise.
//
// The only thing done for speed besides is that a goroutine which gathers a batch lets others run first: without that the client's CPU is
// 1.9 times as much with 16 or 64 goroutines, and 0.8 times with one. More batches under way (16 instead of 4) are not faster; they are for
// connections that are stuck.
package redisbatch
