// Package rig runs replicas of a service behind proxies, and stops them at any command that they send to a server.
//
// [Start] starts the servers. A [Lane] is three replicas, each an [Actor] with a proxy of its own before every server: A is the
// victim, B the rival, C the prober. A [Position] names one command of a request, whatever the run; a [Scene] is one schedule on a
// lane: it asks, holds, kills, and records what the clients and the wire saw, so that the judge can judge it.
//
// Nothing is built into the service: what the rig knows about it stands in a [Service].
package rig
