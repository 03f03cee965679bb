package codec

import (
	"encoding/binary"
	"errors"
	"strconv"

	"lastitem/stack/wire"
)

func (s *mysqlSession) Answer(p []byte) (wire.Message, error) {
	body, n := mysqlPacket(p)
	m := wire.Message{Size: n}
	switch {
	case n == 0:
		return m, nil
	case !s.greeted:
		return m, s.greeting(body)
	case s.long: // only rows are as long as that
		s.long = len(body) == longestPacket
		if len(s.waiting) > 0 {
			m.Of = s.waiting[0].call
		}
		return m, nil
	case len(s.waiting) == 0: // it says why it closes the connection
		return m, nil
	case len(body) == 0:
		return m, errors.New("this is not MySQL's protocol: an empty answer")
	}
	s.long = len(body) == longestPacket
	c := s.waiting[0]
	m.Of = c.call
	var err error
	m.Last, err = s.step(c, body)
	if m.Last {
		s.waiting = s.waiting[1:]
		if body[0] == packetERR && len(body) >= 3 {
			m.Failed = strconv.Itoa(int(binary.LittleEndian.Uint16(body[1:])))
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
		if body[0] == packetOK {
			s.ends(body)
		}
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
