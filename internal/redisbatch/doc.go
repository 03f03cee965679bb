// Package redisbatch sends scripts to a Redis, those that come at the same time in one write. So a busy process shares system calls, on its side
// and on the server's, and a call that comes alone goes at once.
//
// [Batcher] is what sends, [Call] is one script. Start at [Batcher.Do].
//
// It is not the client's own AutoPipeline (go-redis 9.23), because of what a caller must know about a script that changes something:
//
//   - One batch of AutoPipeline is under way at a time, so that one connection that hangs, or one slow script, holds up every caller until the
//     client's time-out. With several batches a call past its limit still counts as one of them.
//   - It executes its batches without a deadline of theirs: a caller can stop waiting, but then it does not know when its command is over.
//   - A server that has lost its scripts answers NOSCRIPT to each call, and each caller then sends the text by itself.
//   - Its size of a batch is a wish and not a bound.
//   - It is marked as experimental.
package redisbatch
