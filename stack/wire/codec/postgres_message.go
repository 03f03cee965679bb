package codec

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgproto3"
)

// postgresMessage cuts a message from the beginning of p: its kind and what follows its length. n 0 = it is not whole
// yet.
func postgresMessage(p []byte) (kind byte, body []byte, n int, err error) {
	if len(p) < 5 {
		return 0, nil, 0, nil
	}
	size := int(binary.BigEndian.Uint32(p[1:]))
	if size < 4 || size > maxMessage {
		return 0, nil, 0, fmt.Errorf("this is not PostgreSQL's protocol: a message %q of %d bytes", p[0], size)
	}
	if len(p) < 1+size {
		return 0, nil, 0, nil
	}
	return p[0], p[5 : 1+size], 1 + size, nil
}

// The types of PostgreSQL whose binary form is shown, by their numbers in pg_type.
var (
	postgresWhole = map[uint32]bool{20: true, 21: true, 23: true, 26: true}
	postgresText  = map[uint32]bool{18: true, 19: true, 25: true, 114: true, 1042: true, 1043: true}
)

const (
	postgresBool = 16
	postgresUUID = 2950
)

// postgresStatement is a prepared statement.
type postgresStatement struct {
	text  string
	types []uint32 // of its parameters; 0 = not known
	rows  []uint32 // the types of its columns; nil = not known
}

// filled is the text of the statement on one line, with values for its parameters.
func (x *postgresStatement) filled(m *pgproto3.Bind) string {
	var out strings.Builder
	for s := x.text; s != ""; {
		n := 1
		switch s[0] {
		case '\'', '"':
			n = quoted(s, false)
		case '$':
			n = max(1, postgresDollar(s))
			if at, err := strconv.Atoi(s[1:n]); err == nil && at >= 1 && at <= len(m.Parameters) {
				out.WriteString(x.value(m, at-1))
				s = s[n:]
				continue
			}
		}
		out.WriteString(s[:n])
		s = s[n:]
	}
	return SQLText(out.String())
}

// value is a parameter as SQL writes it.
func (x *postgresStatement) value(m *pgproto3.Bind, at int) string {
	v := m.Parameters[at]
	if v == nil {
		return "NULL"
	}
	said, of := postgresValue(x.types, m.ParameterFormatCodes, at, v)
	if postgresWhole[of] || of == postgresBool || said == "<bytes>" {
		return said
	}
	return "'" + strings.ReplaceAll(said, "'", "''") + "'"
}

// postgresValue writes the value at a place, for which the types and forms of all are given: one form may be that of
// all. of is its type; 0 = not known.
func postgresValue(types []uint32, formats []int16, at int, v []byte) (said string, of uint32) {
	if at < len(types) {
		of = types[at]
	}
	if len(formats) == 1 {
		at = 0
	}
	if at < len(formats) && formats[at] == pgproto3.BinaryFormat {
		return postgresBinary(of, v), of
	}
	return printable(v), of
}

// printable is a value as it is, or <bytes>.
func printable(v []byte) string {
	if !utf8.Valid(v) || strings.ContainsFunc(string(v), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) {
		return "<bytes>"
	}
	return string(v)
}

// postgresBinary is a value of a type, in binary form.
func postgresBinary(of uint32, v []byte) string {
	switch {
	case postgresWhole[of] && len(v) == 2:
		return strconv.Itoa(int(int16(binary.BigEndian.Uint16(v))))
	case postgresWhole[of] && len(v) == 4:
		return strconv.Itoa(int(int32(binary.BigEndian.Uint32(v))))
	case postgresWhole[of] && len(v) == 8:
		return strconv.FormatInt(int64(binary.BigEndian.Uint64(v)), 10)
	case of == postgresBool && len(v) == 1:
		return strconv.FormatBool(v[0] != 0)
	case of == postgresUUID && len(v) == 16:
		x := hex.EncodeToString(v)
		return strings.Join([]string{x[:8], x[8:12], x[12:16], x[16:20], x[20:]}, "-")
	case postgresText[of]:
		return printable(v)
	}
	return "<bytes>"
}
