package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
)

// The bits of a server's status, and of MariaDB's own capabilities, that matter to a read elsewhere.
const (
	statusAutocommit  = 2
	mariaColumnExtras = 1 << 3
)

var (
	reads = regexp.MustCompile(`(?i)^SELECT\b`)
	// stays is what a splitter keeps at the primary: locks, and what belongs to the session.
	stays = regexp.MustCompile(`(?i);|@|\bFOR (?:UPDATE|SHARE)\b|\bLOCK IN SHARE MODE\b|\bINTO\b|` +
		`\b(?:GET_LOCK|RELEASE_LOCK|RELEASE_ALL_LOCKS|LAST_INSERT_ID|ROW_COUNT|FOUND_ROWS|CONNECTION_ID)\(`)
)

// plainRead says that a splitter sends a statement to a replica where there is no transaction, by its digest.
func plainRead(digest string) bool { return reads.MatchString(digest) && !stays.MatchString(digest) }

// mysqlForm is the form of the answers that a client expects, by what it has asked for.
type mysqlForm struct{ caps, mariaCaps uint32 }

// ask sends a command and reads its answer, which is an error or one result, from a server whose connection has asked
// for nothing that changes the form of a result.
func (f mysqlForm) ask(server io.ReadWriter, command []byte) (answer []byte, err error) {
	if err := send(server, command); err != nil {
		return nil, err
	}
	sequence := byte(0)
	put := func(body []byte) {
		sequence++
		answer = append(append(answer, byte(len(body)), byte(len(body)>>8), byte(len(body)>>16), sequence), body...)
	}
	head, err := receive(server)
	if err != nil {
		return nil, err
	}
	columns, size := lengthOf(head)
	if head[0] == packetERR {
		put(head)
		return answer, nil
	} else if size == 0 || columns == 0 {
		return nil, errors.New("a read elsewhere has no result")
	}
	put(f.head(head))
	for range columns {
		column, err := receive(server)
		if err != nil {
			return nil, err
		}
		put(f.column(column))
	}
	for ends := 0; ends < 2; { // one before the rows, one after them
		body, err := receive(server)
		switch {
		case err != nil:
			return nil, err
		case body[0] == packetERR:
			put(body)
			return answer, nil
		case body[0] != packetEOF || len(body) >= 9:
			put(body)
			continue
		}
		if ends++; ends == 2 || f.caps&capDeprecateEOF == 0 {
			put(f.end())
		}
	}
	return answer, nil
}

// head is the first packet of a result, which has the number of columns.
func (f mysqlForm) head(number []byte) []byte {
	if f.caps&capOptionalMetadata != 0 {
		number = append([]byte{1}, number...) // the columns follow
	}
	if f.mariaCaps&mariaCacheMetadata != 0 {
		number = append(number, 1)
	}
	return number
}

// column is the definition of a column. MariaDB may have one more part after the six names.
func (f mysqlForm) column(definition []byte) []byte {
	if f.mariaCaps&mariaColumnExtras == 0 {
		return definition
	}
	at := 0
	for range 6 {
		n, size := lengthOf(definition[min(at, len(definition)):])
		at += size + n
	}
	at = min(at, len(definition))
	return append(append(append([]byte(nil), definition[:at]...), 0), definition[at:]...)
}

// end is the packet after columns or rows, of a session outside a transaction.
func (f mysqlForm) end() []byte {
	if f.caps&capDeprecateEOF != 0 {
		return []byte{packetEOF, 0, 0, statusAutocommit, 0, 0, 0}
	}
	return []byte{packetEOF, 0, 0, statusAutocommit, 0}
}

// execute is ask for a prepared statement: it prepares it there, and has it executed with the client's parameters.
func (f mysqlForm) execute(server io.ReadWriter, query string, execute []byte) ([]byte, error) {
	if err := send(server, append([]byte{comPrepare}, query...)); err != nil {
		return nil, err
	}
	prepared, err := receive(server)
	if err != nil {
		return nil, err
	}
	if prepared[0] != packetOK || len(prepared) < 9 {
		return nil, fmt.Errorf("a read elsewhere cannot be prepared: %s", mysqlError(prepared))
	}
	id, parameters := prepared[1:5], int(binary.LittleEndian.Uint16(prepared[7:]))
	for _, n := range []int{parameters, int(binary.LittleEndian.Uint16(prepared[5:]))} {
		for range n + min(n, 1) { // with the packet that ends them
			if _, err := receive(server); err != nil {
				return nil, err
			}
		}
	}
	const before = 1 + 4 + 1 + 4 // command, statement, flags, iterations
	typed := before + (parameters+7)/8
	if len(execute) < before || execute[5] != 0 || parameters > 0 && (len(execute) <= typed || execute[typed] != 1) {
		return nil, errors.New("a prepared read with a cursor, or whose parameters have no types, cannot be asked elsewhere")
	}
	command := append([]byte(nil), execute...)
	copy(command[1:], id)
	answer, err := f.ask(server, command)
	if err == nil {
		err = send(server, append([]byte{comCloseStatement}, id...))
	}
	return answer, err
}

// send sends a command of one packet.
func send(server io.Writer, command []byte) error {
	n := len(command)
	if n >= longestPacket {
		return errors.New("a read elsewhere is longer than 16 MB")
	}
	_, err := server.Write(append([]byte{byte(n), byte(n >> 8), byte(n >> 16), 0}, command...))
	return err
}

// receive reads a packet, which is not empty.
func receive(server io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(server, head); err != nil {
		return nil, err
	}
	n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	if n == 0 || n == longestPacket {
		return nil, errors.New("a packet of a read elsewhere is empty, or longer than 16 MB")
	}
	body := make([]byte, n)
	_, err := io.ReadFull(server, body)
	return body, err
}
