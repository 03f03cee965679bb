package wire

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// mostKept is how much of an answer a [Hold] of answers keeps for [Hold.Said].
const mostKept = 4 << 10

// keep notes a part of an answer that a rule holds.
func (k *call) keep(part []byte) {
	if len(k.holds) > 0 && len(k.raw)+len(part) <= mostKept {
		k.raw = append(k.raw, part...)
	}
}

// Said returns what the server answered to the command whose answer the rule held, for people: "1", "nil", "1 row". An answer in several
// parts is whole after it has passed. "" = nothing has been held yet, or nobody reads the protocol here, which is all but Redis and MySQL.
func (h *Hold) Said() string {
	h.proxy.mu.Lock()
	defer h.proxy.mu.Unlock()
	switch {
	case h.held == nil:
		return ""
	case h.proxy.codec.name == Redis.name:
		return respSaid(h.held.raw)
	case h.proxy.codec.name == MySQL.name:
		return mysqlSaid(h.held.raw)
	}
	return ""
}

// respSaid writes a reply that is whole.
func respSaid(p []byte) string {
	if n, err := respReply(p); n == 0 || err != nil {
		return ""
	}
	switch p[0] {
	case '$':
		size, head, _ := respNumber(p)
		if size < 0 {
			return "nil"
		}
		return string(p[head : head+size])
	case '_':
		return "nil"
	case '*':
		if size, _, _ := respNumber(p); size < 0 {
			return "nil"
		}
		return "[" + strings.Join(respWords(p, 8), ", ") + "]"
	case '+', '-', ':', ',', '#', '(':
		line, _, _ := bytes.Cut(p[1:], []byte("\r\n"))
		return string(line)
	}
	return ""
}

// mysqlSaid writes the first row of a result in text, or how many rows a statement has changed, or the number of an error.
func mysqlSaid(p []byte) string {
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
	switch {
	case first[0] == packetOK:
		rows, _ := lengthOf(first[1:])
		return counted(rows)
	case first[0] == packetERR && len(first) >= 3:
		return "ERROR " + strconv.Itoa(int(first[1])|int(first[2])<<8)
	}
	columns, size := lengthOf(first)
	if size == 0 || len(packets) < 1+columns {
		return ""
	}
	for _, row := range packets[1+columns:] {
		if row[0] != packetEOF || len(row) >= 9 {
			return mysqlRow(row)
		}
	}
	return counted(0)
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
