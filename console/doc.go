// Package console is the process beside the replicas that owns the runs and serves the page to watch them. 'shop play'
// starts it.
//
// A [Driver] makes the runs, with the engine and the judge of 'shop demo'. During a run the console reads GET /events
// of every replica, counts the overlaps of critical sections in the full stream, and sends the browsers at most ten
// frames a second, with a sample of the sections. Start reading at [New]; server.go has the routes, access.go the
// access rules, run.go the life of a run, live.go and picture.go the way from the replicas' events to a frame, and
// hub.go the way from a frame to the browsers; product.go reads a product of the shop, and acts on it by hand.
package console
