package rig

import (
	"strings"
	"sync"
	"time"

	"lastitem/stack/wire"
)

// Event is something that happened to a replica, apart from its commands.
type Event struct {
	At    time.Duration `json:"at_ns"` // since the scene began
	Actor string        `json:"actor"`
	What  What          `json:"what"`
	Text  string        `json:"text,omitempty"`
}

// What names the kind of an event.
type What string

// The events of a scene.
const (
	Asked      What = "asked"    // a client sent a request
	Reserves   What = "reserves" // a client asks for a reservation
	Pays       What = "pays"     // for a reservation
	Cancels    What = "cancels"  // a reservation, or an order of somebody's service
	Ships      What = "ships"    // such an order
	Extends    What = "extends"  // a reservation
	Returns    What = "returns"  // an order, or a part of it
	Adjusts    What = "adjusts"  // the stock
	Answered   What = "answered" // the client has its answer: outcome and code
	Held       What = "held"     // a request is held at a position
	Passed     What = "passed"   // the held message goes on
	Blocked    What = "blocked"  // a rival waits in a server, or in its process
	Paused     What = "paused"   // SIGSTOP
	Resumed    What = "resumed"  // SIGCONT
	Killed     What = "killed"   // SIGKILL
	Broken     What = "broken"   // the connection on which the command is held
	Lost       What = "lost"     // the answer, on its way to the client
	FailedOver What = "failover"
	Terminated What = "terminated" // SIGTERM
	HasEnded   What = "ended"      // the process ended by itself
	// SessionEnded is a session that a server ended while its client is alive.
	SessionEnded What = "session-ended"
	// DatabaseKilled and DatabaseBack are SIGKILL of the database, and its restart.
	DatabaseKilled What = "database-killed"
	DatabaseBack   What = "database-back"
	// RowsLocked and RowsFree begin and end a transaction of the lab that locks the rows of a table; ReadOnly and
	// WritableAgain are the state of the database.
	RowsLocked    What = "rows-locked"
	RowsFree      What = "rows-free"
	ReadOnly      What = "read-only"
	WritableAgain What = "writable-again"
	Struck        What = "server" // the lab did something to a server; the text says what, and to which server
)

// diary is what happens in a scene.
type diary struct {
	began time.Time

	mu     sync.Mutex
	events []Event
}

func (d *diary) now() time.Duration { return time.Since(d.began) }

// Note records an event.
func (d *diary) Note(a *Actor, what What, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, Event{At: d.now(), Actor: a.Name, What: what, Text: text})
}

// Events returns what happened, in order.
func (d *diary) Events() []Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Event(nil), d.events...)
}

// Call is a command of the scene, as the proxy saw it.
type Call struct {
	At     time.Duration // when the command reached the server or, if it never did, the proxy
	Actor  string
	Server string
	Text   string
}

// readable returns a command as a story shows it: a script by its name instead of its hash.
func readable(c wire.Call) string {
	if strings.HasPrefix(c.Text, "EVAL") {
		return c.Pattern
	}
	return c.Text
}
