// Package plan says what a load sends: a [Plan] with its defaults and its checks, the named plans ([All]), what the
// buyers do ([Visit]), and when the arrivals of an open loop are due ([Schedule]). It knows no service and no result.
package plan
