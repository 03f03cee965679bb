package codec

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// mysqlSaid writes the first row of a result, or how many rows a statement has changed, or the number of an error.
func mysqlSaid(p []byte) string {
	return mysqlResult(p, func(_ [][]byte, row []byte) string { return mysqlRow(row) })
}

// mysqlSaidBinary does the same for a prepared statement, whose rows have the binary form.
func mysqlSaidBinary(p []byte) string { return mysqlResult(p, mysqlBinaryRow) }

// mysqlResult writes the beginning of an answer; row writes a row, for which it gets the definitions of the columns.
func mysqlResult(p []byte, row func(columns [][]byte, row []byte) string) string {
	var packets [][]byte
	for {
		body, n := mysqlPacket(p)
		if n == 0 || len(body) == 0 {
			break
		}
		packets, p = append(packets, body), p[n:]
	}
	if len(packets) == 0 {
		return ""
	}
	first := packets[0]
	switch first[0] {
	case packetOK:
		rows, _ := lengthOf(first[1:])
		return counted(rows)
	case packetERR:
		return mysqlError(first)
	}
	columns, size := lengthOf(first)
	// MariaDB: the client knows the columns from before
	if size == 0 || len(packets) <= columns || len(first) > size && first[size] == 0 {
		return ""
	}
	for _, next := range packets[1+columns:] {
		switch {
		case next[0] == packetERR:
			return mysqlError(next)
		case next[0] != packetEOF || len(next) >= 9:
			return row(packets[1:1+columns], next)
		}
	}
	if len(p) > 0 { // a row that was not kept whole
		return ""
	}
	return counted(0)
}

func mysqlError(packet []byte) string {
	if len(packet) < 3 {
		return ""
	}
	return "ERROR " + strconv.Itoa(int(packet[1])|int(packet[2])<<8)
}

func counted(rows int) string {
	if rows == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", rows)
}

// mysqlRow writes the values of a row in text.
func mysqlRow(row []byte) string {
	var values []string
	for len(row) > 0 {
		if row[0] == packetInfile { // here: NULL
			values, row = append(values, "NULL"), row[1:]
			continue
		}
		n, size := lengthOf(row)
		if size == 0 || len(row) < size+n {
			break
		}
		values, row = append(values, string(row[size:size+n])), row[size+n:]
	}
	return strings.Join(values, ", ")
}

// mysqlBinaryRow writes the values of a row in the binary form: a zero byte, a bit for each NULL, and the values that
// are left. "" = it has a value that is neither a whole number nor text.
func mysqlBinaryRow(columns [][]byte, row []byte) string {
	const before = 2 // bits that mean nothing
	bits := (len(columns) + before + 7) / 8
	if len(row) < 1+bits {
		return ""
	}
	nulls, rest := row[1:1+bits], row[1+bits:]
	values := make([]string, len(columns))
	for i, column := range columns {
		if at := i + before; nulls[at/8]>>(at%8)&1 == 1 {
			values[i] = "NULL"
			continue
		}
		value, size := mysqlBinaryValue(column, rest)
		if size == 0 {
			return ""
		}
		values[i], rest = value, rest[size:]
	}
	return strings.Join(values, ", ")
}

// mysqlWhole is how many bytes a whole number has, by the type of its column.
var mysqlWhole = map[byte]int{1: 1, 2: 2, 3: 4, 8: 8, 9: 4, 13: 2}

// mysqlBinaryValue reads the first value of p, which belongs to a column; size 0 = it cannot be read.
func mysqlBinaryValue(column, p []byte) (value string, size int) {
	// a definition ends with 12 bytes, the seventh of which is the type, and the eighth has flags
	const end, unsigned = 12, 0x20
	if len(column) < end {
		return "", 0
	}
	kind, flags := column[len(column)-6], column[len(column)-5]
	size = mysqlWhole[kind]
	switch {
	case size > len(p) || kind == 4 || kind == 5 || kind == 7 || kind >= 10 && kind <= 12: // fractions and times
		return "", 0
	case size == 0:
		n, head := lengthOf(p)
		if head == 0 || len(p)-head < n {
			return "", 0
		}
		return string(p[head : head+n]), head + n
	}
	var whole [8]byte
	copy(whole[:], p[:size])
	n := binary.LittleEndian.Uint64(whole[:])
	if flags&unsigned != 0 {
		return strconv.FormatUint(n, 10), size
	}
	unused := 64 - 8*size
	return strconv.FormatInt(int64(n<<unused)>>unused, 10), size
}
