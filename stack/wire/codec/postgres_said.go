package codec

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgproto3"
)

// The types of PostgreSQL whose binary form is shown, by their numbers in pg_type.
var (
	postgresWhole = map[uint32]bool{20: true, 21: true, 23: true, 26: true}
	postgresText  = map[uint32]bool{18: true, 19: true, 25: true, 114: true, 1042: true, 1043: true}
)

const (
	postgresBool = 16
	postgresUUID = 2950
)

// postgresSaid writes the first row of a result, or how many rows a statement has changed, or the code of an error, or
// else what the server calls the command: a COMMIT that fails is answered by ROLLBACK.
func postgresSaid(p []byte) string {
	var columns []pgproto3.FieldDescription
	for {
		kind, body, n, err := postgresMessage(p)
		if n == 0 || err != nil {
			return ""
		}
		p = p[n:]
		switch kind {
		case 'E':
			var m pgproto3.ErrorResponse
			if m.Decode(body) != nil {
				return ""
			}
			return "ERROR " + m.Code
		case 'T':
			var m pgproto3.RowDescription
			if m.Decode(body) != nil {
				return ""
			}
			columns = m.Fields
		case 'D':
			return postgresRow(columns, body)
		case 'C':
			words := strings.Fields(strings.TrimRight(string(body), "\x00"))
			if len(words) > 1 {
				if rows, err := strconv.Atoi(words[len(words)-1]); err == nil {
					return counted(rows)
				}
			}
			return strings.Join(words, " ")
		}
	}
}

// postgresRow writes the values of a row. A client that knows the columns from before gets none; its values are shown
// if they are text.
func postgresRow(columns []pgproto3.FieldDescription, body []byte) string {
	var m pgproto3.DataRow
	if m.Decode(body) != nil {
		return ""
	}
	values := make([]string, len(m.Values))
	for i, v := range m.Values {
		switch {
		case v == nil:
			values[i] = "NULL"
		case i < len(columns) && columns[i].Format == pgproto3.BinaryFormat:
			values[i] = postgresBinary(columns[i].DataTypeOID, v)
		default:
			values[i] = printable(v)
		}
	}
	return strings.Join(values, ", ")
}

// printable is a value as it is, or <bytes>.
func printable(v []byte) string {
	if !utf8.Valid(v) || strings.ContainsFunc(string(v), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) {
		return "<bytes>"
	}
	return string(v)
}

// postgresBinary is a value in binary form of a type; 0 = not known.
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
	var of uint32
	if at < len(x.types) {
		of = x.types[at]
	}
	format := int16(pgproto3.TextFormat)
	switch {
	case len(m.ParameterFormatCodes) == 1: // of all
		format = m.ParameterFormatCodes[0]
	case at < len(m.ParameterFormatCodes):
		format = m.ParameterFormatCodes[at]
	}
	said := printable(v)
	if format == pgproto3.BinaryFormat {
		said = postgresBinary(of, v)
	}
	if postgresWhole[of] || of == postgresBool || said == "<bytes>" {
		return said
	}
	return "'" + strings.ReplaceAll(said, "'", "''") + "'"
}
