package client

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// readLine reads a line without its end; it is valid until the next read.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) { // our service sends no line that does not fit
		return nil, badAnswer("line longer than %d bytes", readBuffer)
	}
	if err != nil {
		return nil, err
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}

// noEOF turns the end of the connection inside an answer into [io.ErrUnexpectedEOF].
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// orBad returns err, or a bad answer if err is nil.
func orBad(err error, why string) error {
	if err != nil {
		return noEOF(err)
	}
	return badAnswer("%s", why)
}

// fold compares with a lower-case word, ASCII letters in either case.
func fold(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// contains says whether a comma-separated header value holds the word.
func contains(value []byte, word string) bool {
	if fold(value, word) {
		return true
	}
	for part := range strings.SplitSeq(string(value), ",") {
		if strings.EqualFold(strings.TrimSpace(part), word) {
			return true
		}
	}
	return false
}

// digits parses a length; false if it is not a number, or is too large for a deduction's answer.
func digits(b []byte) (int64, bool) {
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' || n > maxBody {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(b) > 0
}

// hexadecimal reads the size of a chunk, with the same limit.
func hexadecimal(b []byte) (int64, bool) {
	var n int64
	for _, c := range b {
		switch {
		case n > maxBody:
			return 0, false
		case '0' <= c && c <= '9':
			n = n<<4 + int64(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			n = n<<4 + int64(c|0x20-'a') + 10
		default:
			return 0, false
		}
	}
	return n, len(b) > 0
}
