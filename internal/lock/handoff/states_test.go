package handoff

import (
	"fmt"
	"strings"
	"testing"

	"lastitem/testkit"
	"lastitem/testkit/locktest"
)

// transition is a row of the contender's table.
type transition struct {
	from    state
	because event
	to      state
	sent    string
}

var transitions = []transition{
	{idle, byStart, asking, "acquire, unless the release before queues the token"},
	{asking, byReply, queued, "poll, from time to time"},
	{asking, byReply, granted, ""},
	{asking, byReply, draining, ""},
	{asking, byReply, idle, "the token has ended; an acquire with a new token"},
	{asking, byMessage, granted, ""},
	{asking, byMessage, draining, ""},
	{asking, byGivingUp, idle, "cancel, if a request can have left anything"},
	{queued, byMessage, granted, ""},
	{queued, byMessage, draining, ""},
	{queued, byMessage, asking, "acquire: the message is old, does not suffice, or evicts"},
	{queued, byPoll, asking, "acquire, which renews unless the token has ended"},
	{queued, byGivingUp, idle, "cancel"},
	{draining, byMessage, granted, ""},
	{draining, byMessage, draining, ""},
	{draining, byMessage, asking, "acquire: the message is old, does not suffice, or evicts"},
	{draining, byTimer, asking, "acquire, which renews"},
	{draining, byGivingUp, idle, "cancel"},
	{granted, byRelease, idle, "release"},
	{granted, byLoss, idle, "cancel, if a request may arrive late"},
}

// holdTransition is a row of the lease's table.
type holdTransition struct {
	from, to holdState
	because  string
	sent     string
}

var holdTransitions = []holdTransition{
	{holdActive, holdEnded, "its last entry is released and a waiter is served", ""},
	{holdActive, holdEnded, "its last entry is released", "release"},
	{holdActive, holdEnded, "the engine is closed", "release"},
	{holdActive, holdLost, "its end has come, or a renewal finds another owner", "cancel, if a request may arrive late"},
	{holdEnded, holdLost, "the release finds another owner", ""},
}

var (
	stateNames = [...]string{idle: "idle", asking: "asking", queued: "queued", draining: "draining", granted: "granted"}
	eventNames = [...]string{byStart: "start", byReply: "reply", byMessage: "message", byPoll: "poll", byTimer: "timer",
		byGivingUp: "giving up",
		byRelease:  "release", byLoss: "loss"}
	holdStateNames = [...]string{holdActive: "active", holdEnded: "ended", holdLost: "lost"}
)

// TestMain has every test of the package check the transitions.
func TestMain(m *testing.M) {
	onTransition, onHoldTransition = checkTransition, checkHoldTransition
	locktest.Main(m)
}

// checkTransition panics at a transition that is not in the table, and where fields do not fit the state.
func checkTransition(c *contender, to state, because event) {
	legal := false
	for _, t := range transitions {
		legal = legal || t.from == c.state && t.because == because && t.to == to
	}
	a := &c.attempt
	switch {
	case !legal:
		panic(fmt.Sprintf("handoff: a contender that is %s becomes %s by %s", stateNames[c.state], stateNames[to],
			eventNames[because]))
	case a.acquireAgain && c.state != asking, (a.hold != nil || a.renewing || a.grantNoted) && c.state != granted,
		a.token == "":
		panic(fmt.Sprintf("handoff: a contender that is %s has %+v", stateNames[c.state], *a))
	}
}

func checkHoldTransition(h *hold, to holdState) {
	for _, t := range holdTransitions {
		if t.from == h.state && t.to == to {
			return
		}
	}
	panic(fmt.Sprintf("handoff: a hold that is %s becomes %s", holdStateNames[h.state], holdStateNames[to]))
}

// The package comment shows the tables of the states as they are checked.
func TestDocHasTheStates(t *testing.T) {
	t.Parallel()
	doc := testkit.Read(t, "doc.go")
	var contenders, holds strings.Builder
	row := func(b *strings.Builder, cells ...any) {
		b.WriteString(strings.TrimRight(fmt.Sprintf("//\t%-8s + %-10s -> %-8s  %s", cells...), " ") + "\n")
	}
	for _, r := range transitions {
		row(&contenders, stateNames[r.from], eventNames[r.because], stateNames[r.to], r.sent)
	}
	for _, r := range holdTransitions {
		line := fmt.Sprintf("//\t%-8s -> %-6s  %s", holdStateNames[r.from], holdStateNames[r.to], r.because)
		if r.sent != "" {
			line += ": " + r.sent
		}
		holds.WriteString(line + "\n")
	}
	for _, want := range []string{contenders.String(), holds.String()} {
		if !strings.Contains(string(doc), want) {
			t.Errorf("doc.go has not this table:\n%s", want)
		}
	}
}
