// Package wire puts proxies between a client and its servers. A [Proxy] reads whole messages in both directions, keeps an account of the
// commands as [Call] values, and obeys rules: a [Rule] holds back a command, the answer to one, or a message that the server sends by
// itself; its [Hold] says when something is held, and lets it pass or drops it. A [Recorder] keeps the calls of several proxies, for
// those who only want to look. Start with [NewProxy].
//
// A [Codec] says where a message begins and ends, which answer belongs to which command, and how to name a command so that the same
// one has the same name in the next run ([Call].Pattern).
package wire

import (
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
	// Words are the command of a protocol that consists of words (Redis); nil for the others. A transaction has the words of all its
	// commands.
	Words []string
	// Text is the command on one line, for people.
	Text string
	// Pattern is Text without all that differs from run to run: ids, tokens, numbers, values. A script has its name, see [Names].
	Pattern string
	// Sent is when the command had passed whole, zero while it is held. Answered is when the last of its answer had; zero = not answered.
	Sent, Answered time.Time
	// Poll is a command that waits in the server until there is something, or that only keeps a session alive.
	Poll bool
	// Push is what the server said by itself: the message of a subscription. Of a [Recorder] only.
	Push bool
	// Setup is part of making, checking or closing a connection. No rule sees it.
	Setup bool
	// Name is that of the connection where it gave one (CLIENT SETNAME), or the comment that an SQL statement begins with; else "".
	Name string
	// Failed is what the server said where it refused: the first word of Redis's error, MySQL's number, the status of HTTP from 400 on.
	Failed string
}

// At is when the call stands in an account of what happened: when it was sent, and a poll, when its answer came.
func (c *Call) At() time.Time {
	if c.Poll {
		return c.Answered
	}
	return c.Sent
}

// Codec reads the messages of a protocol. The values are [Redis], [MySQL], [HTTP], [GRPC], [ZooKeeper], [Kafka], and [Raw] for bytes
// that nobody reads.
type Codec struct {
	name  string
	plain bool                  // a client that begins with TLS is found out by its first bytes
	begin func() func() session // called once for a proxy, and what it returns once for each connection
}

// session reads both sides of one connection. The caller sees to it that only one method runs at a time.
type session interface {
	// command reads the next message at the beginning of p, which a client sent; size 0 = it is not whole yet.
	command(p []byte) (message, error)
	// answer does the same with what the server sent.
	answer(p []byte) (message, error)
}

// message is the smallest thing that is held or passes.
type message struct {
	size int    // of what was read for it
	data []byte // what goes on in its place; nil = what was read
	// stream is what keeps its order, besides the connection's end; 0 in a protocol with one stream a connection.
	stream uint32

	call   *call // the command that it is
	cancel bool  // the client gives up the stream

	of     *call   // the command whose answer it is, or is part of
	last   bool    // of is answered with it
	open   bool    // the answer ends with the connection
	failed string  // with last: why the server refused
	found  string  // with last: what a poll has brought, for its Text
	vain   bool    // with last: a poll has brought nothing
	over   []*call // with last: what the server will not answer any more

	granted []byte // with last: the credentials of the client's session, see Proxy.Sessions

	push *call // what it is where the server sent it by itself
}

// call is a Call on its way.
type call struct {
	Call
	conn    *conn
	stream  uint32
	holds   []*Hold // of its answer
	silent  bool    // it has no answer
	open    bool    // its answer ends with the connection
	arrived bool    // the answer has begun to come
	raw     []byte  // the answer so far, where holds hold it

	// For a Recorder.
	quiet   bool  // it is left out
	listens bool  // begins a subscription: a Recorder keeps it where it was sent
	inside  bool  // it is of a transaction, which is the call
	own     *Call // the words that are noted in place of the transaction's
	noted   *Call
}

// maxMessage is more than any message that a client or a server sends: what claims to be longer is none.
const maxMessage = 1 << 30
