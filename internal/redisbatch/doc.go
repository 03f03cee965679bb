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
// Medians of eight rounds in turn, as shares of the client without batches:
//
//	goroutines                      1      16      64     256
//	CPU of the client: AutoPipeline 2.48   0.75    0.47   0.24
//	                   this package 1.45   0.53    0.31   0.26
//	CPU of Redis:      AutoPipeline 1.12   0.49    0.37   0.32
//	                   this package 0.98   0.52    0.39   0.33
//	time:              AutoPipeline 2.37   0.73    0.47   0.30
//	                   this package 1.46   0.72    0.30   0.45
//
// Where the round trip takes 5 ms, the time differs by less than the noise, and both take a tenth of the client's without batches at 256.
// The only thing done for speed besides is that a goroutine which gathers a batch lets others run first: without that the client's CPU is
// 1.6 times as much with 16 or 64 goroutines. More batches under way (16 instead of 4) are not faster; they are for connections that are stuck.
package redisbatch
