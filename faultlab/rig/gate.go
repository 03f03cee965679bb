package rig

import (
	"context"

	"lastitem/stack/wire"
)

// Gate lets the commands of an actor pass one at a time: it holds each command before the server, and the answer on its
// way back. The gate stays until the lane is reset.
type Gate struct {
	actor *Actor
	open  func(wire.Call) bool
	at    map[string]*Passage // by server
}

// Passage is one command at a gate, or the place where the next command will be held.
type Passage struct {
	gate     *Gate
	server   string
	command  *wire.Hold
	answer   *wire.Hold
	executed bool
}

// Gate puts a gate before every server of the actor. open returns true for a command that must pass without being held
// because it is not part of a request.
func (a *Actor) Gate(open func(wire.Call) bool) *Gate {
	g := &Gate{actor: a, open: open, at: map[string]*Passage{}}
	for _, server := range a.Servers() {
		g.arm(server)
	}
	return g
}

// arm holds the next command for a server, and its answer.
func (g *Gate) arm(server string) {
	match := func(c wire.Call) bool { return !c.Poll && c.Name == "" && !g.open(c) }
	p := &Passage{gate: g, server: server}
	p.command, _ = g.actor.Add(server, wire.Rule{Match: match}) // the actor has it
	p.answer, _ = g.actor.Add(server, wire.Rule{Match: match, Answer: true})
	g.at[server] = p
}

// Held returns the command that is held before its server; nil = none is.
func (g *Gate) Held() *Passage {
	var first *Passage
	for _, p := range g.at {
		if !p.executed && reached(p.command) && (first == nil || p.Call().ID < first.Call().ID) {
			first = p
		}
	}
	return first
}

// Call returns the command.
func (p *Passage) Call() wire.Call { return p.command.Call() }

// Text returns the command as a story shows it, with its server: "redis: GET stock:1".
func (p *Passage) Text() string { return p.server + ": " + readable(p.Call()) }

// Execute lets the command reach its server. The answer is held when it comes.
func (p *Passage) Execute() {
	p.executed = true
	p.command.Pass()
}

// Executed says whether the server has answered the command.
func (p *Passage) Executed() bool { return reached(p.answer) }

// Said returns the server's answer in readable form; see [wire.Hold.Said].
func (p *Passage) Said() string { return p.answer.Said() }

// Deliver lets the answer reach the client, whose next command is held.
func (p *Passage) Deliver() {
	p.gate.arm(p.server)
	p.answer.Pass()
}

// Lose drops the answer and resets the client's connection. The client's next command is held.
func (p *Passage) Lose() {
	p.gate.arm(p.server)
	p.answer.Drop(true)
}

func reached(h *wire.Hold) bool {
	select {
	case <-h.Reached():
		return true
	default:
		return false
	}
}

// Revive starts the process again after it was killed, and removes its gate while it starts. Commands that the killed
// process had sent and no server had received are dropped.
func (g *Gate) Revive(ctx context.Context) error {
	a := g.actor
	a.place.Warm = ""
	if err := a.Discard(ctx); err != nil {
		return err
	}
	a.Release()
	if err := a.start(ctx); err != nil {
		return err
	}
	for _, server := range a.Servers() {
		g.arm(server)
	}
	return nil
}

// Abandon ends a scene in any state: everything that is held goes on, stopped processes run again, and if a request is
// not answered before ctx ends, A and B are killed.
func (s *Scene) Abandon(ctx context.Context) {
	for _, a := range s.Lane.actors() {
		a.Release()
		if a.stopped && a.Alive() {
			_ = a.Resume()
		}
	}
	s.mu.Lock()
	ops := s.ops
	s.mu.Unlock()
	for _, p := range ops {
		if p.Wait(ctx) != nil {
			s.Lane.A.Kill()
			s.Lane.B.Kill()
			return
		}
	}
}
