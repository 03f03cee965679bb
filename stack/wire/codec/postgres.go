package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"lastitem/stack/wire"
)

// Postgres reads version 3 of the protocol of PostgreSQL. It tells a client that asks for encryption that there is
// none. A command is a Query, or everything up to a Sync or Flush.
var Postgres = wire.Codec{Plain: true, Begin: func() wire.Session {
	return &postgresSession{statements: map[string]*postgresStatement{}, portals: map[string]postgresPortal{}}
}}

// The codes of the messages that a client sends first.
const (
	postgresCancel = 80877102
	postgresTLS    = 80877103
	postgresGSS    = 80877104
	postgresMajor  = 3
)

// postgresIdle is the status of a connection without an open transaction, in ReadyForQuery.
const postgresIdle = 'I'

// postgresSession is a connection.
type postgresSession struct {
	started    bool
	status     byte // of the last ReadyForQuery; 0 = the client is not logged in yet
	statements map[string]*postgresStatement
	portals    map[string]postgresPortal
	waiting    []*postgresCall
	copies     bool // the client sends the data of a COPY
	copySync   bool // the Sync after these data belongs to the COPY
}

// postgresPortal is a statement with the values of its parameters.
type postgresPortal struct {
	text, pattern string
	result        postgresResult
}

// postgresCall is a command without its whole answer.
type postgresCall struct {
	call      *wire.Command
	ready     bool // the answer ends with ReadyForQuery
	login     bool
	extended  bool
	left      int                  // answers to come to a group without ReadyForQuery
	failed    string               // the code of the error that came
	described []*postgresStatement // that are described next
	columns   *postgresStatement   // whose columns are described next
}

func (s *postgresSession) Command(p []byte) (wire.Message, error) {
	if !s.started {
		return s.start(p)
	}
	kind, body, n, err := postgresMessage(p)
	m := wire.Message{Size: n}
	if n == 0 || err != nil {
		return m, err
	}
	if s.copying(kind) {
		return m, nil
	}
	k := &wire.Command{}
	c := &postgresCall{call: k, ready: true}
	switch kind {
	case 'Q':
		text, _, _ := strings.Cut(string(body), "\x00")
		k.Text, k.Pattern, k.Name = SQLText(text), PostgresDigest(text), SQLComment(text)
		k.Said = postgresResult{}.said
		k.Setup = s.setsUp(k.Text)
	case 'F':
		k.Text, k.Pattern = "FUNCTION CALL", "FUNCTION CALL"
	case 'P', 'B', 'D', 'E', 'C', 'H', 'S':
		m.Size, err = s.group(c, p)
		if m.Size == 0 || err != nil {
			return wire.Message{}, err
		}
		if !c.ready && c.left == 0 { // a Flush alone
			return m, nil
		}
	case 'X':
		k.Text, k.Pattern, k.Setup, k.Silent = "QUIT", "QUIT", true, true
	case 'p': // of a login that has begun
		return m, nil
	default:
		return m, fmt.Errorf("this is not PostgreSQL's protocol: a client's message %q", kind)
	}
	m.Command = k
	if !k.Silent {
		s.waiting = append(s.waiting, c)
	}
	return m, nil
}

// copying says whether a message belongs to the data of a COPY: the server ignores a Sync between them, and answers the
// one after them.
func (s *postgresSession) copying(kind byte) bool {
	switch {
	case kind == 'd':
		return true
	case kind == 'c' || kind == 'f':
		s.copySync = s.copies && len(s.waiting) > 0 && s.waiting[0].extended
		s.copies = false
		return true
	case kind == 'S' && s.copySync:
		s.copySync = false
		return true
	}
	return s.copies && kind == 'S'
}

// start reads what a client sends first, which has no kind.
func (s *postgresSession) start(p []byte) (wire.Message, error) {
	if len(p) < 8 {
		return wire.Message{}, nil
	}
	size, code := int(binary.BigEndian.Uint32(p)), binary.BigEndian.Uint32(p[4:])
	encryption := code == postgresTLS || code == postgresGSS
	if !encryption && code != postgresCancel && code>>16 != postgresMajor || size < 8 || size > longestStart {
		return wire.Message{}, errors.New("this is not version 3 of PostgreSQL's protocol")
	}
	if len(p) < size {
		return wire.Message{}, nil
	}
	m := wire.Message{Size: size}
	if encryption {
		m.Reply = []byte{'N'}
		return m, nil
	}
	s.started = true
	k := &wire.Command{}
	k.Setup, k.Silent, k.Text, k.Pattern = true, true, "CANCEL", "CANCEL"
	m.Command = k
	if code == postgresCancel {
		return m, nil
	}
	user, words := "", strings.Split(string(p[8:size]), "\x00")
	for i := 0; i+1 < len(words); i += 2 {
		switch words[i] {
		case "user":
			user = words[i+1]
		case "replication":
			return m, wire.ErrReplica
		}
	}
	k.Silent, k.Text, k.Pattern = false, "LOGIN "+user, "LOGIN"
	s.waiting = append(s.waiting, &postgresCall{call: k, ready: true, login: true})
	return m, nil
}

// longestStart is the longest first message that a server takes.
const longestStart = 10000

// group reads the messages up to a Sync or Flush, or up to a message that ends the group without belonging to it; n 0 =
// they are not whole yet.
func (s *postgresSession) group(c *postgresCall, p []byte) (n int, err error) {
	type part struct {
		kind byte
		body []byte
	}
	var parts []part
	for ended := false; !ended; {
		kind, body, size, err := postgresMessage(p[n:])
		if size == 0 || err != nil {
			return 0, err
		}
		if !strings.ContainsRune("PBDECHS", rune(kind)) {
			break
		}
		parts, n = append(parts, part{kind, body}), n+size
		ended = kind == 'S' || kind == 'H'
	}
	c.ready, c.extended = parts[len(parts)-1].kind == 'S', true
	g := postgresGroup{session: s, call: c}
	for _, x := range parts {
		if err := g.add(x.kind, x.body); err != nil {
			return 0, fmt.Errorf("this is not PostgreSQL's protocol: %w", err)
		}
	}
	g.describe(c.call)
	return n, nil
}

// postgresGroup is what a group of messages does.
type postgresGroup struct {
	session  *postgresSession
	call     *postgresCall
	prepared string // the last text that is prepared
	executed []postgresPortal
}

// add reads one message of the group, whose whole answer is one message, but for the rows of an Execute.
func (g *postgresGroup) add(kind byte, body []byte) error {
	s := g.session
	switch kind {
	case 'P':
		var m pgproto3.Parse
		if err := m.Decode(body); err != nil {
			return err
		}
		g.prepared = m.Query
		s.statements[m.Name] = &postgresStatement{text: m.Query, types: m.ParameterOIDs}
	case 'B':
		var m pgproto3.Bind
		if err := m.Decode(body); err != nil {
			return err
		}
		if x := s.statements[m.PreparedStatement]; x != nil {
			s.portals[m.DestinationPortal] = postgresPortal{x.filled(&m), PostgresDigest(x.text),
				postgresResult{x.rows, m.ResultFormatCodes}}
		}
	case 'D':
		var m pgproto3.Describe
		if err := m.Decode(body); err != nil {
			return err
		}
		if m.ObjectType == 'S' {
			g.call.described = append(g.call.described, s.statements[m.Name])
		}
	case 'E':
		var m pgproto3.Execute
		if err := m.Decode(body); err != nil {
			return err
		}
		g.executed = append(g.executed, s.portals[m.Portal])
	case 'C':
		var m pgproto3.Close
		if err := m.Decode(body); err != nil {
			return err
		}
		if m.ObjectType == 'S' {
			delete(s.statements, m.Name)
		}
	default:
		return nil
	}
	g.call.left++
	return nil
}

var begins = regexp.MustCompile(`(?i)^(?:BEGIN|START TRANSACTION)\b`)

// describe writes what the group executes. A group that executes nothing prepares, describes or closes, which does
// nothing to the data. BEGIN at its beginning is left out of its pattern: nobody can come between it and the next.
func (g *postgresGroup) describe(k *wire.Command) {
	if len(g.executed) == 0 {
		k.Text, k.Pattern, k.Setup = "SYNC", "SYNC", true
		if g.prepared != "" {
			k.Text, k.Pattern = "PREPARE "+SQLText(g.prepared), "PREPARE "+PostgresDigest(g.prepared)
		}
		return
	}
	var texts, patterns []string
	for i, x := range g.executed {
		texts = append(texts, x.text)
		if i > 0 || len(g.executed) == 1 || !begins.MatchString(x.pattern) {
			patterns = append(patterns, x.pattern)
		}
	}
	k.Text, k.Pattern = strings.Join(texts, "; "), strings.Join(patterns, "; ")
	k.Name, k.Said = SQLComment(k.Text), g.executed[0].result.said
	k.Setup = len(texts) == 1 && g.session.setsUp(k.Text)
}

var (
	setsSession = regexp.MustCompile(`(?i)^(?:;?$|(?:SET|RESET|SHOW|DISCARD|DEALLOCATE|LISTEN|UNLISTEN)\b|SELECT 1;?$|` +
		`SELECT (?:pg_catalog\.)?(?:set_config|current_setting|version|current_schemas?|current_database|` +
		`pg_is_in_recovery|pg_backend_pid|pg_advisory_unlock_all)\()`)
	readsCatalog = regexp.MustCompile(`(?i)^(?:SELECT|WITH)\b.*\bFROM ` +
		`(?:information_schema\.|(?:pg_catalog\.)?pg_\w+(?:[^\w(]|$))`)
)

// setsUp says whether a statement concerns the connection, and not the data: outside of a transaction it sets or checks
// the connection; anywhere it reads the catalog, as clients do that want to know types.
func (s *postgresSession) setsUp(text string) bool {
	return s.status == postgresIdle && setsSession.MatchString(text) || readsCatalog.MatchString(text)
}

func (s *postgresSession) Answer(p []byte) (wire.Message, error) {
	kind, body, n, err := postgresMessage(p)
	m := wire.Message{Size: n}
	switch {
	case n == 0 || err != nil:
		return m, err
	case kind == 'A':
		m.Push = postgresNotice(body)
		return m, nil
	case kind == 'Z' && len(body) == 1:
		s.status, s.copies = body[0], false
		for len(s.waiting) > 0 && !s.waiting[0].ready { // an error before them has made the server ignore them
			m.Over, s.waiting = append(m.Over, s.waiting[0].call), s.waiting[1:]
		}
	}
	if len(s.waiting) == 0 { // it says why it closes the connection, or that a setting has changed
		return m, nil
	}
	c := s.waiting[0]
	m.Of = c.call
	if m.Last = s.step(c, kind, body); m.Last {
		s.waiting, m.Failed = s.waiting[1:], c.failed
	}
	return m, nil
}

// step reads the next message of an answer, and says whether it is the last.
func (s *postgresSession) step(c *postgresCall, kind byte, body []byte) (last bool) {
	switch kind {
	case 'Z':
		return c.ready
	case 'E':
		var m pgproto3.ErrorResponse
		if m.Decode(body) == nil {
			c.failed = m.Code
		}
		return c.login || !c.ready
	case 't':
		var m pgproto3.ParameterDescription
		if len(c.described) > 0 {
			if c.columns = c.described[0]; c.columns != nil && m.Decode(body) == nil {
				c.columns.types = m.ParameterOIDs
			}
			c.described = c.described[1:]
		}
	case 'G':
		s.copies = true
	case '1', '2', '3', 'n', 'T', 'C', 'I', 's':
		c.left--
		var m pgproto3.RowDescription
		if kind == 'T' && c.columns != nil && m.Decode(body) == nil {
			c.columns.rows = typesOf(m.Fields)
		}
		if kind == 'T' || kind == 'n' {
			c.columns = nil
		}
		return !c.ready && c.left == 0
	}
	return false
}

// postgresNotice is a notification that a client listens for.
func postgresNotice(body []byte) *wire.Command {
	k := &wire.Command{}
	var m pgproto3.NotificationResponse
	if m.Decode(body) == nil {
		k.Text, k.Pattern = "NOTIFY "+m.Channel+" "+m.Payload, "NOTIFY "+Key(m.Channel)
	}
	return k
}
