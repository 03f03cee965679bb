// Package faultlab finds out which way of deducting stock survives which fault. It tries every point at which the fault
// can strike, on real replicas and servers, from outside. The wire is the scheduler: proxies stop a request at any of
// its commands, the fault strikes there, and the judge reads the ledger. The technique is systematic concurrency
// testing with bounded preemptions (CHESS: Musuvathi et al., Finding and Reproducing Heisenbugs in Concurrent Programs,
// OSDI 2008), on processes instead of threads.
//
// [Explore] plays the schedules of cells (mode, store, fault) on several lanes in parallel. A [Cell] holds the
// outcomes, with a witness for each: a [Schedule] that [Play] can play again. Package tell says what was found.
package faultlab
