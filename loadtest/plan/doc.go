// Package plan says what load to put on a service: a [Plan] with its defaults and its faults, the named plans ([All]), and the
// [Schedule] of the open model's arrivals. Start reading at [Plan].
package plan
