package wire

import (
	"encoding/binary"
	"errors"
	"strconv"
)

// mysqlAnswer is how the answer to a command is built.
type mysqlAnswer int

const (
	noAnswer       mysqlAnswer = iota
	shortAnswer                // one packet
	resultAnswer               // OK, ERR, or one or several results
	preparedAnswer             // numbers of parameters and columns, and these
	rowAnswer                  // rows of a cursor
	fieldAnswer                // columns
	loginAnswer                // an exchange that ends with OK or ERR
)

// mysqlPlace is where in an answer its reader is.
type mysqlPlace int

const (
	atStart   mysqlPlace = iota
	atColumns            // as many as are left, before rows
	atEOF                // after the columns
	atRows
	atPrepared // as many packets as are left
)

// First bytes of packets.
const (
	packetOK       = 0
	packetInfile   = 0xfb
	packetEOF      = 0xfe
	packetERR      = 0xff
	errProgress    = 0xffff // MariaDB's word on how far it is
	statusMore     = 8
	statusCursor   = 0x40
	shortestResult = 7 // an OK packet is no shorter
)

func (s *mysqlSession) answer(p []byte) (message, error) {
	body, n := mysqlPacket(p)
	m := message{size: n}
	switch {
	case n == 0:
		return m, nil
	case !s.greeted:
		return m, s.greeting(body)
	case s.long: // only rows are as long as that
		s.long = len(body) == longestPacket
		if len(s.waiting) > 0 {
			m.of = s.waiting[0].call
		}
		return m, nil
	case len(s.waiting) == 0: // it says why it closes the connection
		return m, nil
	case len(body) == 0:
		return m, errors.New("this is not MySQL's protocol: an empty answer")
	}
	s.long = len(body) == longestPacket
	c := s.waiting[0]
	m.of = c.call
	var err error
	m.last, err = s.step(c, body)
	if m.last {
		s.waiting = s.waiting[1:]
		if body[0] == packetERR && len(body) >= 3 {
			m.failed = strconv.Itoa(int(binary.LittleEndian.Uint16(body[1:])))
		}
	}
	return m, err
}

// step reads the next packet of an answer, and says whether it is the last.
func (s *mysqlSession) step(c *mysqlCall, body []byte) (last bool, err error) {
	if body[0] == packetERR && c.at != atColumns && c.at != atPrepared {
		return len(body) < 3 || binary.LittleEndian.Uint16(body[1:]) != errProgress, nil
	}
	switch c.at {
	case atColumns:
		c.left--
		if c.left == 0 {
			c.at = s.afterColumns()
		}
		return false, nil
	case atEOF:
		c.at = atRows
		return s.ends(body)&statusCursor != 0, nil
	case atRows:
		if body[0] != packetEOF || len(body) == longestPacket || s.caps&capDeprecateEOF == 0 && len(body) >= 9 {
			return false, nil
		}
		return s.next(c, s.ends(body)), nil
	case atPrepared:
		c.left--
		return c.left == 0, nil
	}
	switch c.kind {
	case resultAnswer:
		return s.result(c, body)
	case preparedAnswer:
		return s.prepared(c, body)
	case loginAnswer:
		return body[0] == packetOK, nil
	case fieldAnswer:
		return body[0] == packetEOF, nil
	}
	if body[0] == packetOK {
		s.ends(body)
	}
	return true, nil
}

// result reads the first packet of a result.
func (s *mysqlSession) result(c *mysqlCall, body []byte) (last bool, err error) {
	optional := s.caps&capOptionalMetadata != 0
	switch {
	case body[0] == packetOK && (!optional || len(body) >= shortestResult), body[0] == packetEOF && len(body) < 9:
		return s.next(c, s.ends(body)), nil
	case body[0] == packetInfile:
		s.infile = true
		return false, nil
	}
	follow := true
	if optional {
		follow, body = body[0] != 0, body[1:]
	}
	columns, size := lengthOf(body)
	if size == 0 {
		return false, errors.New("this is not MySQL's protocol: a result without columns")
	}
	if s.mariaCaps&mariaCacheMetadata != 0 && len(body) > size {
		follow = body[size] != 0
	}
	c.at, c.left = atColumns, columns
	if !follow || columns == 0 {
		c.at = s.afterColumns()
	}
	return false, nil
}

func (s *mysqlSession) afterColumns() mysqlPlace {
	if s.caps&capDeprecateEOF != 0 {
		return atRows
	}
	return atEOF
}

// next begins another result if the server says that there is one; otherwise the answer is complete.
func (s *mysqlSession) next(c *mysqlCall, status uint16) (last bool) {
	if status&statusMore == 0 || c.kind == rowAnswer {
		return true
	}
	c.at = atStart
	return false
}

// prepared reads the first packet of the answer to PREPARE.
func (s *mysqlSession) prepared(c *mysqlCall, body []byte) (last bool, err error) {
	if len(body) < 9 {
		return false, errors.New("this is not MySQL's protocol: a statement without a number")
	}
	s.statements[binary.LittleEndian.Uint32(body[1:])] = c.text
	c.at, c.left = atPrepared, 0
	for _, n := range []uint16{binary.LittleEndian.Uint16(body[5:]), binary.LittleEndian.Uint16(body[7:])} {
		if n > 0 && (s.caps&capOptionalMetadata == 0 || len(body) < 13 || body[12] != 0) {
			c.left += int(n)
			if s.caps&capDeprecateEOF == 0 {
				c.left++
			}
		}
	}
	return c.left == 0, nil
}

// ends reads the status of the server at the end of a result: an OK packet, an EOF packet, or an OK packet that calls
// itself EOF.
func (s *mysqlSession) ends(body []byte) uint16 {
	at := 3 // after the warnings
	if body[0] == packetOK || s.caps&capDeprecateEOF != 0 {
		_, affected := lengthOf(body[1:])
		if len(body) < 1+affected {
			return 0
		}
		_, inserted := lengthOf(body[1+affected:])
		at = 1 + affected + inserted
	}
	if len(body) >= at+2 {
		s.status = binary.LittleEndian.Uint16(body[at:])
		return s.status
	}
	return 0
}

// lengthOf reads a number of MySQL's variable length, below 2^63; size 0 = there is none.
func lengthOf(p []byte) (number, size int) {
	if len(p) == 0 {
		return 0, 0
	}
	switch p[0] {
	case 0xfc:
		size = 3
	case 0xfd:
		size = 4
	case 0xfe:
		size = 9
	case packetInfile, packetERR:
		return 0, 0
	default:
		return int(p[0]), 1
	}
	if len(p) < size {
		return 0, 0
	}
	for i := size - 1; i > 0; i-- {
		number = number<<8 | int(p[i])
	}
	if number < 0 {
		return 0, 0
	}
	return number, size
}
