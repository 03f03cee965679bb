// Loads on a service are described by a [Plan] with its defaults and its validation, the named plans ([All]), and the
// [Schedule] of the arrivals of an open loop. Start reading at [Plan].

package loadtest
