// Package rig runs replicas of a service behind proxies, and stops them at any command that they send to a server.
//
// A [Lane] is three replicas, each an [Actor] with its own proxy before every server: A is the victim, B the rival, C
// the prober. A [Position] names one command of a request in a way that holds for every run. A [Scene] is one schedule
// on a lane: it sends, holds and kills, and records the answers and the commands for the judge.
//
// The servers, and what may be done to them, are package gear. The service needs no hooks: a [Service] has everything
// that the rig knows about it.
package rig
