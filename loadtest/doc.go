// Package loadtest puts load on the shop, records what its clients saw, and has the judge say whether stock was deducted
// exactly while it was fast.
//
// A [Plan] says what load: closed (clients that wait for their answers) or open (arrivals that do not wait). [Run] carries
// a plan out against one mode of the service behind a [Control] and returns a [Result]: latencies kept apart for accepted,
// refused and failed requests, the history of every request, and the judge's verdict on it. [RunForeign] does the same for
// a service that is not ours.
//
// The package speaks HTTP and imports nothing of the service but the wire types and the judge: it could judge another
// implementation. Three rules hold throughout. A request whose answer was lost is unknown, never failed, and is never sent
// a second time behind the plan's back. Open-loop latency counts from the moment a request was due, not from when it could
// be sent, so a stalled server cannot hide its stall (coordinated omission). And percentiles are merged, never averaged.
//
// Start with [Run] and [Plan]. Package client is how one client speaks HTTP, package plan says what load there can be.
package loadtest

import "lastitem/loadtest/plan"

// Plan says what load to put on one mode.
type Plan = plan.Plan
