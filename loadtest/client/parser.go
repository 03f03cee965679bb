package client

import (
	"bufio"
	"bytes"
	"io"

	"lastitem/contract/api"
	"lastitem/target"
)

// interned keeps one string for each of a few recurring values, so that reading one costs no allocation. It stops
// adding values when there are many.
type interned map[string]string

// of returns b as a string.
func (in interned) of(b []byte) string {
	if s, ok := in[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(in) < 64 {
		in[s] = s
	}
	return s
}

// parser reads HTTP/1.1 answers (RFC 9112) for the raw engine, and reuses its buffer. An answer that it does not
// understand is a bad answer; it never guesses.
type parser struct {
	body  []byte
	names interned
}

// head has the contents of the status line and the headers.
type head struct {
	status   int
	minor    byte  // of HTTP/1.x
	length   int64 // -1 = not given
	chunked  bool
	close    bool
	keep     bool
	problem  bool
	replayed bool
	replica  string
	retry    string
	location string
}

// read reads one answer. reusable says that the connection may carry another request.
func (p *parser) read(in *bufio.Reader) (a Answer, reusable bool, err error) {
	var h head
	for {
		if h, err = p.readHead(in); err != nil {
			return Answer{}, false, err
		}
		if h.status == 101 {
			return Answer{}, false, badAnswer("protocol switched")
		}
		if h.status >= 200 {
			break // 1xx only announces the answer
		}
	}
	a.Reply = target.Reply{Status: h.status, Problem: h.problem, Replica: h.replica, Replayed: h.replayed,
		RetryAfter: target.RetryAfter(h.retry), Location: h.location}
	untilClose, err := p.readBody(in, h)
	if err != nil {
		return a, false, err
	}
	// HTTP/1.1 connections stay open unless a header says otherwise; HTTP/1.0 ones close unless a header says otherwise.
	reusable = !h.close && !untilClose && (h.minor == 1 || h.keep)
	a.Body = p.body
	return a, reusable, nil
}

// readHead reads the status line and the headers.
func (p *parser) readHead(in *bufio.Reader) (head, error) {
	h := head{length: -1}
	line, err := readLine(in)
	if err != nil {
		return h, err
	}
	// "HTTP/1.1 200 OK", where the reason and even the blank before it may be missing.
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || line[8] != ' ' || (len(line) > 12 && line[12] != ' ') {
		return h, badAnswer("status line %.40q", line)
	}
	h.minor = line[7] - '0'
	if h.minor > 9 {
		return h, badAnswer("status line %.40q", line)
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return h, badAnswer("status line %.40q", line)
		}
		h.status = h.status*10 + int(c-'0')
	}
	if h.status < 100 {
		return h, badAnswer("status %d", h.status)
	}
	for {
		line, err = readLine(in)
		if err != nil {
			return h, noEOF(err)
		}
		if len(line) == 0 {
			if h.chunked && h.minor == 0 { // RFC 9112 6.1: the end of such an answer is not defined
				return h, badAnswer("transfer encoding in HTTP/1.0")
			}
			return h, nil
		}
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok || len(name) == 0 {
			return h, badAnswer("header %.40q", line)
		}
		if err := p.header(&h, name, bytes.TrimSpace(value)); err != nil {
			return h, err
		}
	}
}

// header reads one header into h. The length of the name decides first, so that most headers cost one comparison.
func (p *parser) header(h *head, name, value []byte) error {
	switch len(name) {
	case len("Connection"):
		if fold(name, "connection") {
			h.close = h.close || contains(value, "close")
			h.keep = h.keep || contains(value, "keep-alive")
		}
	case len("Content-Type"):
		if fold(name, "content-type") {
			h.problem = target.IsProblem(value)
		}
	case len("Location"):
		if fold(name, "location") {
			h.location = string(value)
		}
	case len("Content-Length"):
		if fold(name, "content-length") {
			n, ok := digits(value)
			// Two different lengths, as in request smuggling, leave the end of the answer undefined.
			if !ok || (h.length >= 0 && h.length != n) {
				return badAnswer("content length %.20q", value)
			}
			h.length = n
		}
	case len("Transfer-Encoding"):
		if fold(name, "transfer-encoding") {
			if !fold(value, "chunked") {
				return badAnswer("transfer encoding %.20q", value)
			}
			h.chunked = true
		}
	case len(api.HeaderReplica):
		if fold(name, "x-replica") {
			h.replica = p.names.of(value)
		}
	case len("Retry-After"):
		if fold(name, "retry-after") {
			h.retry = p.names.of(value)
		}
	case len(api.HeaderReplayed):
		if fold(name, "idempotent-replayed") {
			h.replayed = fold(value, "true")
		}
	}
	return nil
}

// readBody reads the body into p.body; untilClose says that only the end of the connection ended it.
func (p *parser) readBody(in *bufio.Reader, h head) (untilClose bool, err error) {
	p.body = p.body[:0]
	switch {
	case h.status == 204 || h.status == 304:
		return false, nil // they have no body, whatever their headers say
	case h.chunked:
		return false, p.readChunks(in)
	case h.length >= 0:
		return false, p.take(in, h.length)
	default: // neither length nor chunks: the connection's end is the body's
		for {
			n, err := in.Read(p.grow(512))
			p.body = p.body[:len(p.body)+n]
			if err == io.EOF {
				return true, nil
			}
			if err != nil {
				return true, err
			}
			if len(p.body) > maxBody {
				return true, badAnswer("more than %d bytes", maxBody)
			}
		}
	}
}

// readChunks reads a chunked body with its trailers.
func (p *parser) readChunks(in *bufio.Reader) error {
	for {
		line, err := readLine(in)
		if err != nil {
			return noEOF(err)
		}
		size, _, _ := bytes.Cut(line, []byte{';'}) // extensions follow the semicolon
		n, ok := hexadecimal(bytes.TrimSpace(size))
		if !ok {
			return badAnswer("chunk of size %.20q", line)
		}
		if n == 0 {
			break
		}
		if err := p.take(in, n); err != nil {
			return err
		}
		if line, err = readLine(in); err != nil || len(line) != 0 {
			return orBad(err, "chunk without an end")
		}
	}
	for { // trailers
		line, err := readLine(in)
		if err != nil {
			return noEOF(err)
		}
		if len(line) == 0 {
			return nil
		}
	}
}

// take appends n bytes to the body.
func (p *parser) take(in *bufio.Reader, n int64) error {
	if n > maxBody || int64(len(p.body))+n > maxBody {
		return badAnswer("more than %d bytes", maxBody)
	}
	room := p.grow(int(n))[:n]
	if _, err := io.ReadFull(in, room); err != nil {
		return noEOF(err)
	}
	p.body = p.body[:len(p.body)+int(n)]
	return nil
}

// grow returns the free space after the body, n bytes or more.
func (p *parser) grow(n int) []byte {
	if cap(p.body)-len(p.body) < n {
		p.body = append(make([]byte, 0, 2*cap(p.body)+n), p.body...)
	}
	return p.body[len(p.body):cap(p.body)]
}
