package wire

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The commands of MySQL's protocol that carry something to show, by their number.
const (
	comInitDB  = 2
	comQuery   = 3
	comPing    = 14
	comPrepare = 22
	comExecute = 23
)

// MySQL reads MySQL's protocol, without TLS and compression. A packet that begins a command has number 0; the login and the rest
// of a long one have others. Commands that only tidy up (close a statement, quit) are left out.
func MySQL() (sent, heard Reader) {
	var buf []byte
	return func(p []byte) (calls []*Call) {
		buf = append(buf, p...)
		for len(buf) >= 4 {
			size := int(buf[0]) | int(buf[1])<<8 | int(buf[2])<<16
			if len(buf) < 4+size {
				break
			}
			if number, body := buf[3], buf[4:4+size]; number == 0 && size > 0 {
				if text := mysqlText(body); text != "" {
					calls = append(calls, &Call{Text: text})
				}
			}
			buf = buf[4+size:]
		}
		return calls
	}, nil
}

func mysqlText(body []byte) string {
	argument := string(body[1:])
	switch body[0] {
	case comQuery:
		return SQLText(argument)
	case comPrepare:
		return "PREPARE " + SQLText(argument)
	case comExecute:
		if len(body) < 5 {
			return "EXECUTE"
		}
		return fmt.Sprintf("EXECUTE statement %d", binary.LittleEndian.Uint32(body[1:]))
	case comInitDB:
		return "USE " + argument
	case comPing:
		return "PING"
	}
	return ""
}

var (
	blanks      = regexp.MustCompile(`\s+`)
	binaryValue = regexp.MustCompile(`(?s)_binary'((?:[^'\\]|\\.|'')*)'`)
)

// SQLText writes a statement on one line; binary values that are no text are shown as <bytes>.
func SQLText(statement string) string {
	statement = binaryValue.ReplaceAllStringFunc(statement, func(value string) string {
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\n' || r == utf8.RuneError || r == 0x7f }) {
			return "<bytes>"
		}
		return value
	})
	return strings.TrimSpace(blanks.ReplaceAllString(statement, " "))
}
