// Package loadtest puts load on the shop, records what the clients saw, and lets the judge decide whether stock was
// deducted exactly.
//
// A plan describes the load: a closed loop (clients that wait for their answers) or an open loop (arrivals that do not
// wait). [Run] runs a plan against one mode of the service that a [Control] talks to, and returns a [Result]: latencies
// kept apart for accepted, refused and failed requests, the history of every request, and the judge's verdict on it.
// [RunForeign] does the same for a service that is not ours.
//
// Package target makes the requests and reads the answers. Of the service this package imports only the wire types and
// the judge, so it can judge another implementation. Three rules hold everywhere. A request without an answer
// is unknown, never failed, and is never sent again unless the plan says so. Open-loop latency counts from the time
// when a request was due, not from when it was sent, so a stalled server cannot hide its stall (coordinated omission).
// And percentiles are computed from merged histograms, never averaged.
//
// Start with [Run]. Package plan has the possible loads, package client the HTTP client of one worker, package compare
// what several runs show together.
package loadtest
