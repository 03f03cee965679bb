package replica

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"lastitem/contract/api"
)

// problemListener converts the errors that net/http answers on its own, before a handler runs, to problems: a malformed
// request line or header (400), an unknown Expect (417), a header that is too long (431), an unknown transfer encoding
// (501) or version (505). net/http has no hook for them; it writes each to the connection as plain text, in a single
// Write.
type problemListener struct {
	net.Listener
	replica string // X-Replica; "" = no such header
}

// Problems returns a listener whose connections carry such problems. replica is their X-Replica; "" leaves it out.
func Problems(l net.Listener, replica string) net.Listener { return problemListener{l, replica} }

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

// How to recognise net/http's own errors. Our handlers never write these lines, since they set X-Replica or another
// content type.
var (
	plainError  = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
	expectation = []byte("HTTP/1.1 417 ")
)

// Write writes p, or the problem that replaces it. In both cases it reports that p was written.
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

// problemOf renders the problem. net/http's status line has the cause: "400 Bad Request: malformed Host header".
func problemOf(status int, p []byte, replica string) []byte {
	detail := "the request could not be read: " + string(p[9:bytes.IndexByte(p, '\r')])
	problem := api.NewProblem(api.InvalidRequest, detail, "")
	problem.Status = status
	body, err := json.Marshal(problem)
	if err != nil { // strings and numbers always encode
		body = []byte("{}")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n", status,
		http.StatusText(status), api.ProblemType, len(body)+1)
	if replica != "" {
		fmt.Fprintf(&b, "%s: %s\r\n", api.HeaderReplica, replica)
	}
	b.WriteString("\r\n")
	b.Write(body)
	b.WriteByte('\n')
	return b.Bytes()
}
