// Package plan describes loads on a service: a [Plan] with its defaults and its validation, the named plans ([All]), and the [Schedule]
// of the arrivals of an open loop. Start reading at [Plan].
package plan
