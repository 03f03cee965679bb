// Package wire puts proxies between a client and its servers. A [Proxy] reads whole messages in both directions, keeps
// an account of the commands as [Call] values, and obeys rules: a [Rule] holds back a command, the answer to one, or a
// message that the server sends by itself; its [Hold] says when something is held, and lets it pass or drops it. A
// [Recorder] keeps the calls of several proxies and holds nothing. Start with [NewProxy].
//
// A [Codec] says where a message begins and ends, which answer belongs to which command, and how to name a command so
// that the same one has the same name in the next run ([Call].Pattern).
package wire

import (
	"errors"
	"io"
	"time"
)

// Call is one command as it came to a proxy.
type Call struct {
	// ID rises in the order in which commands came to the proxies of this process.
	ID int64
	// Server is the name given to [NewProxy].
	Server string
	// Conn is the number of the connection, unique in this process.
	Conn int64
	// Words are the command of a protocol that consists of words (Redis); nil for the others. A transaction has the words
	// of all its commands.
	Words []string
	// Text is the command on one line, for people.
	Text string
	// Pattern is Text without what differs from run to run: ids, tokens, numbers, values. A script has its name, see
	// codec.Names.
	Pattern string
	// Sent is when the whole command had been passed on; zero while it is held. Answered is when the last part of its
	// answer had been; zero = not answered.
	Sent, Answered time.Time
	// Poll is a command that waits in the server until there is something, or that only keeps a session alive.
	Poll bool
	// Push marks a message that the server sent by itself to a subscriber. Only a [Recorder] sets it.
	Push bool
	// Setup is part of making, checking or closing a connection. No rule sees it.
	Setup bool
	// Plain is a read outside a transaction, which a read-write splitter sends to a replica.
	Plain bool
	// Name is the name that the client gave the connection (CLIENT SETNAME), or the comment at the beginning of an SQL
	// statement; else "".
	Name string
	// Failed says how the server refused the command: the first word of Redis's error, the number of MySQL's or
	// ZooKeeper's, the SQLSTATE of PostgreSQL's, the status of HTTP from 400 on or of gRPC; "" = it did not refuse it, or
	// has not answered.
	Failed string
}

// At returns the time by which calls are ordered: when the call was sent or, for a poll, when it was answered.
func (c *Call) At() time.Time {
	if c.Poll {
		return c.Answered
	}
	return c.Sent
}

// Codec reads the messages of a protocol. Package codec has those of the servers, and [Raw] passes bytes on unread.
type Codec struct {
	Plain bool           // the client speaks first, so that TLS is recognized by its first bytes
	Begin func() Session // called once for each connection
}

// Session reads both sides of one connection. The caller runs one method at a time.
type Session interface {
	// Command reads the next message at the beginning of p, which a client sent; size 0 = it is not whole yet.
	Command(p []byte) (Message, error)
	// Answer does the same with what the server sent.
	Answer(p []byte) (Message, error)
}

// ErrReplica is what a [Session] returns for a replica's link: its connection ends, and the proxy has met no error.
var ErrReplica = errors.New("a replica's link is no client's")

// Message is the smallest thing that is held or passes.
type Message struct {
	Size int    // how many bytes were read for it
	Data []byte // the bytes passed on instead; nil = the bytes read
	// Reply is what the proxy answers a client's message instead of passing it on; nil = it passes it on.
	Reply []byte
	// Messages of one stream keep their order; 0 in a protocol with one stream per connection.
	Stream uint32

	Command *Command // that it is
	Cancel  bool     // the client gives up the stream

	Of     *Command   // the command whose answer it is, or is part of
	Last   bool       // it completes the answer
	Open   bool       // the answer ends with the connection
	Failed string     // with Last: why the server refused
	Over   []*Command // with Last: other commands that will get no answer

	Granted []byte // with Last: the credentials of the client's session, see Proxy.Sessions

	Push *Command // what it is where the server sent it by itself
}

// Command is a Call on its way. A codec sets the exported fields, the proxy the others.
type Command struct {
	Call
	Silent bool                       // it has no answer
	Said   func(answer []byte) string // writes the answer for people; nil = it cannot be read
	// Elsewhere sends a Plain command to another server of the same kind, on a connection that has logged in and is idle.
	// It returns the answer in the form that the client expects.
	Elsewhere func(server io.ReadWriter) (answer []byte, err error)

	// For a Recorder.
	Quiet   bool  // it is left out
	Listens bool  // it begins a subscription: a Recorder orders it by when it was sent
	Inside  bool  // it is part of a transaction, which is one call
	Own     *Call // EXEC alone, which is noted in place of the transaction

	stream  uint32
	holds   []*Hold // of its answer
	instead Instead // see Rule.Instead; nil = the server answers
	open    bool    // its answer ends with the connection
	arrived bool    // the answer has begun to come
	raw     []byte  // the answer so far, where holds hold it
	noted   *Call   // by a Recorder
}
