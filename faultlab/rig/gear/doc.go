// Package gear is the equipment of a lane: its servers, and what may be done to them and to the wires that lead there.
//
// [Start] starts the servers that all lanes share. A [Set] is what one lane has: the [Place] with its links, servers of
// its own ([Own], [Pair], [SQL], [Edge]) as its [Equipment] says, and the [Wires] of each replica. It knows nothing of
// schedules.
package gear
