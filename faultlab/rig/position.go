package rig

import (
	"fmt"
	"sync/atomic"

	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack/wire"
	"lastitem/stack/wire/codec"
)

// Cut is where a message is stopped.
type Cut string

// The cuts at a command. The fault decides whether the command goes on later or never; at Copied it does not stop.
const (
	Command Cut = "command" // the command has not reached the server
	Answer  Cut = "answer"  // the server has executed the command, and the answer has not reached the client
	Severed Cut = "severed" // the command has not reached the server, and the client's connection breaks
	Copied  Cut = "copied"  // a copy of the database answers the read, and those before it
)

// Position names a command of a request in a way that holds for every run: not by its number, which differs from run to
// run, but by server, pattern and occurrence.
type Position struct {
	Server  string `json:"server"`  // "redis"
	Pattern string `json:"pattern"` // "GET stock:{#}", see wire.Call
	Nth     int    `json:"nth"`     // its occurrence among the commands of its kind in the request, from 1
	Cut     Cut    `json:"cut"`
	// Plain is a read outside a transaction, see wire.Call. Only a trace sets it.
	Plain bool `json:"-"`
}

func (p Position) String() string {
	s := p.Server + ": " + p.Pattern
	if p.Nth > 1 {
		s += fmt.Sprintf(" (%d)", p.Nth)
	}
	switch p.Cut {
	case Answer:
		return "after " + s
	case Severed:
		return "on the way of " + s
	case Copied:
		return "reads a copy up to " + s
	}
	return "before " + s
}

// insideTexts say why nothing can be held within a statement, by its kind.
var insideTexts = map[string]text.Text{
	codec.SQLProcedure:  text.Of("runs a procedure or a function inside the database"),
	codec.SQLStatements: text.Of("is several statements in one message"),
	codec.SQLSubquery:   text.Of("reads and writes in one statement"),
}

// Inside says that the command does several things inside its server, between which no request can be held; zero = it
// does not, as far as its text shows.
func (p Position) Inside() text.Text {
	if p.Server != gear.Database {
		return text.Text{}
	}
	return insideTexts[codec.SQLInside(p.Pattern)]
}

// Arm makes the actor's proxy stop the command when it comes.
func (a *Actor) Arm(p Position) (*wire.Hold, error) { return a.armed(p, new(atomic.Int64)) }

// armed is [Actor.Arm], with the commands of that kind counted in n, also those of other actors.
func (a *Actor) armed(p Position, n *atomic.Int64) (*wire.Hold, error) {
	return a.Add(p.Server, wire.Rule{Answer: p.Cut == Answer, Match: func(c wire.Call) bool {
		return !c.Poll && c.Pattern == p.Pattern && n.Add(1) == int64(p.Nth)
	}})
}

// positions numbers the commands of a kind.
func positions(calls []wire.Call) []Position {
	var all []Position
	seen := map[[2]string]int{}
	for _, c := range calls {
		if c.Setup || c.Poll {
			continue
		}
		kind := [2]string{c.Server, c.Pattern}
		seen[kind]++
		all = append(all, Position{Server: c.Server, Pattern: c.Pattern, Nth: seen[kind], Cut: Command, Plain: c.Plain})
	}
	return all
}
