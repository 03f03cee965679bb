package codec

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// postgresResult is what is known of the rows of a result before they come: the types of their columns, and in which
// form each value is; nil = as text.
type postgresResult struct {
	types   []uint32
	formats []int16
}

// said writes the first row of a result, or how many rows a statement has changed, or the code of an error, or else
// what the server calls the command: a COMMIT that fails is answered by ROLLBACK.
func (r postgresResult) said(p []byte) string {
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
			r.types = typesOf(m.Fields)
		case 'D':
			return r.row(body)
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

func typesOf(columns []pgproto3.FieldDescription) (types []uint32) {
	for _, c := range columns {
		types = append(types, c.DataTypeOID)
	}
	return types
}

func (r postgresResult) row(body []byte) string {
	var m pgproto3.DataRow
	if m.Decode(body) != nil {
		return ""
	}
	values := make([]string, len(m.Values))
	for i, v := range m.Values {
		if values[i] = "NULL"; v != nil {
			values[i], _ = postgresValue(r.types, r.formats, i, v)
		}
	}
	return strings.Join(values, ", ")
}
