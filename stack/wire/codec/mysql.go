package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"lastitem/stack/wire"
)

// MySQL reads the protocol of MySQL and MariaDB, without TLS and compression.
var MySQL = wire.Codec{Begin: func() wire.Session { return &mysqlSession{statements: map[uint32]string{}} }}

// mysqlSession is a connection. Its first two messages are the server's greeting and the client's login.
type mysqlSession struct {
	greeted, loggedIn bool
	maria             bool
	caps, mariaCaps   uint32 // what the client asked for of what the server has
	serverCaps        uint32
	serverMariaCaps   uint32
	status            uint16 // of the last answer
	begun             bool   // a statement has been sent that is not part of making the connection
	infile            bool   // the client sends a file
	long              bool   // the server's packet goes on in the next
	waiting           []*mysqlCall
	statements        map[uint32]string // that are prepared
	lastPrepared      string
}

// mysqlCall is a command without an answer.
type mysqlCall struct {
	call *wire.Command
	kind mysqlAnswer
	at   mysqlPlace
	left int // packets of the part of the answer that is being read
	text string
}

func (s *mysqlSession) Command(p []byte) (wire.Message, error) {
	body, n := mysqlPacket(p)
	if n == 0 {
		return wire.Message{}, nil
	}
	switch {
	case !s.loggedIn:
		return s.login(body, n)
	case s.infile:
		s.infile = len(body) > 0
		return wire.Message{Size: n}, nil
	case p[3] != 0 || len(body) == 0: // of an exchange that has begun
		return wire.Message{Size: n}, nil
	}
	for last := body; len(last) == longestPacket; {
		more, size := mysqlPacket(p[n:])
		if size == 0 {
			return wire.Message{}, nil
		}
		if n == 4+longestPacket {
			body = append(make([]byte, 0, 2*longestPacket), body...)
		}
		body, last, n = append(body, more...), more, n+size
	}
	m := wire.Message{Size: n, Command: &wire.Command{}}
	kind, err := s.describe(m.Command, body)
	if err != nil {
		return m, err
	}
	m.Command.Silent = kind == noAnswer
	if kind != noAnswer {
		c := &mysqlCall{call: m.Command, kind: kind}
		if kind == rowAnswer {
			c.at = atRows
		}
		if kind == preparedAnswer {
			s.lastPrepared = s.query(body)
			c.text = s.lastPrepared
		}
		s.waiting = append(s.waiting, c)
	}
	return m, nil
}

// login reads the client's answer to the greeting.
func (s *mysqlSession) login(body []byte, n int) (wire.Message, error) {
	m := wire.Message{Size: n}
	if !s.greeted || len(body) < 32 {
		return m, errors.New("this is not MySQL's protocol: the client does not log in")
	}
	caps := binary.LittleEndian.Uint32(body)
	switch {
	case caps&s.serverCaps&capTLS != 0:
		return m, errors.New("the client asks for TLS: have it connect without (tls=false, ssl-mode=DISABLED, " +
			"sslMode=disable)")
	case caps&s.serverCaps&(capCompress|capZstd) != 0:
		return m, errors.New("the client asks for compression: have it connect without (compress=false)")
	}
	s.caps = caps & s.serverCaps
	if s.maria && caps&capLongPassword == 0 {
		s.mariaCaps = binary.LittleEndian.Uint32(body[28:]) & s.serverMariaCaps
	}
	s.loggedIn = true
	user, _, _ := strings.Cut(string(body[32:]), "\x00")
	m.Command = &wire.Command{}
	m.Command.Setup, m.Command.Text, m.Command.Pattern = true, "LOGIN "+user, "LOGIN"
	s.waiting = append(s.waiting, &mysqlCall{call: m.Command, kind: loginAnswer})
	return m, nil
}

// greeting reads the capabilities of a server.
func (s *mysqlSession) greeting(body []byte) error {
	s.greeted = true
	if len(body) > 0 && body[0] == 0xff { // it takes no more clients
		return nil
	}
	_, rest, ok := strings.Cut(string(body), "\x00") // the version
	if len(body) == 0 || body[0] != 10 || !ok || len(rest) < 31 {
		return errors.New("this is not MySQL's protocol: the server does not greet")
	}
	two := func(at int) uint32 { return uint32(rest[at]) | uint32(rest[at+1])<<8 }
	s.serverCaps = two(13) | two(18)<<16
	s.maria = s.serverCaps&capLongPassword == 0
	if s.maria {
		s.serverMariaCaps = two(27) | two(29)<<16
	}
	return nil
}

// describe says what a command is, and what kind of answer it has.
func (s *mysqlSession) describe(k *wire.Command, body []byte) (kind mysqlAnswer, err error) {
	switch body[0] {
	case comQuery:
		query := s.query(body)
		k.Text, k.Pattern, k.Name, k.Said = SQLText(query), SQLDigest(query), SQLComment(query), mysqlSaid
		k.Setup = s.setsUp(k.Text)
		s.begun = s.begun || !k.Setup
		if !k.Setup {
			s.elsewhere(k, query, nil)
		}
		return resultAnswer, nil
	case comPrepare:
		query := s.query(body)
		k.Text, k.Pattern, k.Name = "PREPARE "+SQLText(query), "PREPARE "+SQLDigest(query), SQLComment(query)
		s.begun = true
		return preparedAnswer, nil
	case comExecute, comBulkExecute:
		s.describeExecute(k, body)
		return resultAnswer, nil
	case comFetch:
		k.Text, k.Pattern = "FETCH", "FETCH"
		return rowAnswer, nil
	case comBinlogDump, comBinlogDumpGTID, comTableDump, comRegisterSlave:
		return 0, errors.New("a replica's link is no client's: put a proxy without a codec before it")
	}
	return s.describeSetup(k, body), nil
}

// elsewhere notes that a command is a plain read, and how another server is asked. execute is the command that executes
// the query after it was prepared; nil = the query itself was sent.
func (s *mysqlSession) elsewhere(k *wire.Command, query string, execute []byte) {
	if s.status&(statusAutocommit|statusInTransaction) != statusAutocommit || !plainRead(k.Pattern) {
		return
	}
	form := mysqlForm{s.caps, s.mariaCaps}
	k.Plain = true
	k.Elsewhere = func(server io.ReadWriter) ([]byte, error) {
		if execute != nil {
			return form.execute(server, query, execute)
		}
		return form.ask(server, append([]byte{comQuery}, query...))
	}
}

// describeExecute describes the execution of a statement by the text that it was prepared from.
func (s *mysqlSession) describeExecute(k *wire.Command, body []byte) {
	argument := body[1:]
	k.Text, k.Pattern, k.Said = "EXECUTE", "EXECUTE", mysqlSaidBinary
	if len(argument) < 4 {
		return
	}
	id := binary.LittleEndian.Uint32(argument)
	query := s.statements[id]
	if id == lastPrepared {
		query = s.lastPrepared
	}
	k.Text, k.Pattern, k.Name = fmt.Sprintf("EXECUTE statement %d", id), SQLDigest(query), SQLComment(query)
	if body[0] == comExecute && id != lastPrepared {
		s.elsewhere(k, query, body)
	}
}

// mysqlSetups are the commands that concern the connection, and not the data.
var mysqlSetups = map[byte]struct {
	name string
	kind mysqlAnswer
}{
	comQuit:            {"QUIT", noAnswer},
	comLongData:        {"SEND LONG DATA", noAnswer},
	comCloseStatement:  {"CLOSE STATEMENT", noAnswer},
	comInitDB:          {"USE", shortAnswer},
	comPing:            {"PING", shortAnswer},
	comResetConnection: {"RESET CONNECTION", shortAnswer},
	comResetStatement:  {"RESET STATEMENT", shortAnswer},
	comStatistics:      {"STATISTICS", shortAnswer},
	comChangeUser:      {"CHANGE USER", loginAnswer},
	comFieldList:       {"FIELDS", fieldAnswer},
	comProcessInfo:     {"PROCESSES", resultAnswer},
}

// describeSetup describes one of mysqlSetups. A command that is not known is taken for one, with a short answer.
func (s *mysqlSession) describeSetup(k *wire.Command, body []byte) mysqlAnswer {
	setup, known := mysqlSetups[body[0]]
	if !known {
		setup.name, setup.kind = fmt.Sprintf("COMMAND %d", body[0]), shortAnswer
	}
	argument := body[1:]
	k.Setup, k.Text, k.Pattern = true, setup.name, setup.name
	switch {
	case body[0] == comInitDB:
		k.Text += " " + string(argument)
	case body[0] == comCloseStatement && len(argument) >= 4:
		delete(s.statements, binary.LittleEndian.Uint32(argument))
	}
	return setup.kind
}

// query is the text of a COM_QUERY or COM_STMT_PREPARE, after the attributes that it may have.
func (s *mysqlSession) query(body []byte) string {
	text := string(body[1:])
	if body[0] != comQuery || s.caps&capQueryAttributes == 0 || len(text) < 2 {
		return text
	}
	if text[0] == 0 { // there are no attributes; the byte after it is the number of sets, always 1
		return text[2:]
	}
	return "query with attributes"
}

var (
	setsConnection = regexp.MustCompile(`(?i)^(?:SET (?:NAMES|CHARACTER ` +
		`SET|SESSION|@@|sql_mode|time_zone|character_set)|SELECT (?:@@|VERSION\(\)|DATABASE\(\))|SHOW ` +
		`(?:SESSION VARIABLES|VARIABLES|WARNINGS|COLLATION|ENGINES))`)
	setsAutocommit = regexp.MustCompile(`(?i)^SET (?:SESSION |@@(?:session\.)?)?autocommit ?=`)
)

const statusInTransaction = 1

// setsUp says whether a statement makes the connection what the client wants it to be, and does nothing else.
func (s *mysqlSession) setsUp(text string) bool {
	if setsAutocommit.MatchString(text) {
		return s.status&statusInTransaction == 0 // else it commits
	}
	return !s.begun && setsConnection.MatchString(text)
}
