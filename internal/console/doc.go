// Package console is the process beside the replicas that owns runs and serves the page to watch them: 'shop play' starts it.
//
// It makes no run itself: a [Driver] does, with the engine and the judge of 'shop demo'. While one goes on, the console reads GET /events
// of every replica, counts the overlaps of critical sections in the full stream, and sends the browsers ten frames a second at most, with
// a sample of the sections. Start with [New]; server.go has the routes, access.go the rules of who may do what, run.go the life of a run,
// live.go and picture.go the way from the replicas' events to a frame, and hub.go the way from there to the browsers.
package console
