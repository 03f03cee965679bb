package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"lastitem/internal/api"
)

// problemListener makes problems of the errors that net/http answers by itself, before there is a request: a broken request line or
// header (400), an Expect that it does not know (417), a header that is too long (431), a transfer encoding (501) or a version (505) that
// it does not know. There is no hook for them: it writes them to the connection, as plain text, in one piece each.
type problemListener struct {
	net.Listener
	replica string // X-Replica; "" = leave it out
}

// Accept wraps the connection.
func (l problemListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &problemConn{Conn: c, replica: l.replica}, nil
}

type problemConn struct {
	net.Conn
	replica string
}

// The marks of net/http's own errors. A handler of ours always sets X-Replica or a content type of its own, and writes neither.
var (
	plainError  = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
	expectation = []byte("HTTP/1.1 417 ")
)

// Write passes p on, or the problem that stands for it. It says that p was written.
func (c *problemConn) Write(p []byte) (int, error) {
	status, ok := ownError(p)
	if !ok {
		return c.Conn.Write(p)
	}
	if _, err := c.Conn.Write(problemOf(status, p, c.replica)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ownError recognises an error of net/http itself, and returns its status.
func ownError(p []byte) (status int, ok bool) {
	if len(p) < 13 || p[9] < '4' || !bytes.HasPrefix(p, []byte("HTTP/1.1 ")) {
		return 0, false
	}
	line := bytes.IndexByte(p, '\r')
	if line < 0 || !bytes.HasPrefix(p, expectation) && !bytes.HasPrefix(p[line:], plainError) {
		return 0, false
	}
	status, err := strconv.Atoi(string(p[9:12]))
	return status, err == nil
}

// problemOf writes the problem. The status line of net/http gives the cause: "400 Bad Request: malformed Host header".
func problemOf(status int, p []byte, replica string) []byte {
	detail := "the request could not be read: " + string(p[9:bytes.IndexByte(p, '\r')])
	problem := api.NewProblem(api.InvalidRequest, detail, "")
	problem.Status = status
	body, err := json.Marshal(problem)
	if err != nil { // strings and numbers always encode
		body = []byte("{}")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n", status, http.StatusText(status), api.ProblemType, len(body)+1)
	if replica != "" {
		fmt.Fprintf(&b, "%s: %s\r\n", api.HeaderReplica, replica)
	}
	b.WriteString("\r\n")
	b.Write(body)
	b.WriteByte('\n')
	return b.Bytes()
}
