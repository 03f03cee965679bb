package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"lastitem/stack/wire"
)

// HTTP reads HTTP/1.1: a request is a call, a query of Consul that waits for a change is a poll.
var HTTP = wire.Codec{Plain: true, Begin: func() wire.Session { return &httpSession{} }}

type httpSession struct {
	waiting []*httpCall
	left    int64 // of the body of the answer that is being read
	body    httpBody
	request int64 // bytes still to come of the body of a request that was sent with Expect
}

type httpCall struct {
	call   *wire.Command
	head   bool // the answer has no body
	failed string
}

// httpBody is how the end of a body is found.
type httpBody int

const (
	noBody httpBody = iota
	sizedBody
	chunkedBody
	trailer
	openBody // the connection's end is its end
)

const longestHead = 1 << 20

func (s *httpSession) Command(p []byte) (wire.Message, error) {
	if s.request > 0 {
		n := min(int(s.request), len(p))
		s.request -= int64(n)
		return wire.Message{Size: n}, nil
	}
	line, head, n, err := httpHead(p)
	if n == 0 || err != nil {
		return wire.Message{}, err
	}
	method, rest, ok := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	if !ok || !strings.HasPrefix(version, "HTTP/1.") {
		return wire.Message{}, fmt.Errorf("this is not HTTP/1.1: a request begins with %q", line[:min(len(line), 40)])
	}
	if headerOf(head, "Upgrade") != "" && strings.Contains(strings.ToLower(headerOf(head, "Connection")), "upgrade") {
		return wire.Message{}, fmt.Errorf("the client wants another protocol than HTTP/1.1: %s", headerOf(head, "Upgrade"))
	}
	m := wire.Message{Size: n, Command: &wire.Command{}}
	var body []byte
	size, err := contentLength(head)
	switch {
	case err != nil:
		return wire.Message{}, err
	case chunked(head):
		var used int
		if body, used, err = httpChunks(p[n:]); used == 0 || err != nil {
			return wire.Message{}, err
		}
		m.Size += used
	case size > maxMessage:
		return wire.Message{}, errors.New("a request of more than a gigabyte")
	case headerOf(head, "Expect") != "":
		s.request = size
	case int64(len(p)-n) < size:
		return wire.Message{}, nil
	default:
		body, m.Size = p[n:n+int(size)], n+int(size)
	}
	k := m.Command
	k.Text, k.Pattern = method+" "+target, method+" "+httpPath(target)+consulKeys(target, body)
	if len(body) > 0 {
		k.Text += " " + quote(strings.TrimSpace(string(body)))
	}
	k.Poll = method == "GET" && blocking.MatchString(target) ||
		method == "PUT" && strings.HasPrefix(target, "/v1/session/renew/")
	s.waiting = append(s.waiting, &httpCall{call: k, head: method == "HEAD"})
	return m, nil
}

// httpPath is a target for a pattern: a version of an API stays in it.
func httpPath(target string) string {
	if len(target) > 3 && target[:2] == "/v" && target[3] == '/' {
		return target[:3] + Key(target[3:])
	}
	return Key(target)
}

// consulKeys are what a transaction of Consul does to which keys, for its pattern.
func consulKeys(target string, body []byte) (keys string) {
	if path, _, _ := strings.Cut(target, "?"); path != "/v1/txn" {
		return ""
	}
	var operations []struct{ KV struct{ Verb, Key string } }
	if json.Unmarshal(body, &operations) != nil {
		return ""
	}
	for _, o := range operations {
		keys += " " + o.KV.Verb + " " + Key(o.KV.Key)
	}
	return keys
}

// blocking is a query of Consul that waits for a newer state than the one of index.
var blocking = regexp.MustCompile(`[?&]index=[1-9]`)

// headerOf is the value of a header; "" = there is none.
func headerOf(head []byte, name string) string {
	for len(head) > 0 {
		line := head
		if end := bytes.IndexByte(head, '\n'); end >= 0 {
			line, head = head[:end], head[end+1:]
		} else {
			head = nil
		}
		if len(line) > len(name) && line[len(name)] == ':' && strings.EqualFold(string(line[:len(name)]), name) {
			return strings.TrimSpace(string(line[len(name)+1:]))
		}
	}
	return ""
}

// contentLength is the length of the body by its header; 0 = there is no such header.
func contentLength(head []byte) (int64, error) {
	text := headerOf(head, "Content-Length")
	if text == "" {
		return 0, nil
	}
	size, err := strconv.ParseInt(text, 10, 63)
	if err != nil || size < 0 {
		return 0, fmt.Errorf("this is not HTTP/1.1: a body of length %q", text)
	}
	return size, nil
}

func chunked(head []byte) bool {
	return strings.HasSuffix(strings.ToLower(headerOf(head, "Transfer-Encoding")), "chunked")
}

// httpHead cuts the head of a message from p: its first line, the headers, and its length with the empty line.
func httpHead(p []byte) (line string, head []byte, n int, err error) {
	end := bytes.Index(p, []byte("\r\n\r\n"))
	if first := bytes.IndexByte(p, '\n'); first >= 0 && !bytes.Contains(p[:first], []byte("HTTP/1.")) ||
		end < 0 && len(p) > longestHead {
		return "", nil, 0, errors.New("this is not HTTP/1.1: a message has no head")
	}
	if end < 0 {
		return "", nil, 0, nil
	}
	line, _, _ = strings.Cut(string(p[:end]), "\r\n")
	return line, p[:end], end + 4, nil
}

// httpChunk reads the next chunk at the beginning of p: data, and the length with what stands around it. The last one
// has no data.
func httpChunk(p []byte) (data []byte, n int, err error) {
	end := bytes.Index(p, []byte("\r\n"))
	if end < 0 {
		if len(p) > 1<<10 {
			err = errors.New("this is not HTTP/1.1: a chunk without a length")
		}
		return nil, 0, err
	}
	text, _, _ := strings.Cut(string(p[:end]), ";")
	size, err := strconv.ParseInt(strings.TrimSpace(text), 16, 63)
	if err != nil || size < 0 || size > maxMessage {
		return nil, 0, fmt.Errorf("this is not HTTP/1.1: a chunk of length %q", text)
	}
	if size == 0 {
		return nil, end + 2, nil
	}
	n = end + 2 + int(size) + 2
	if len(p) < n {
		return nil, 0, nil
	}
	return p[end+2 : n-2], n, nil
}

// httpChunks reads a body of chunks with its end; n 0 = it is not whole yet.
func httpChunks(p []byte) (body []byte, n int, err error) {
	for {
		data, size, err := httpChunk(p[n:])
		if size == 0 || err != nil {
			return nil, 0, err
		}
		n += size
		body = append(body, data...)
		if data != nil {
			continue
		}
		for { // trailers, and an empty line
			end := bytes.Index(p[n:], []byte("\r\n"))
			if end < 0 {
				return nil, 0, nil
			}
			n += end + 2
			if end == 0 {
				return body, n, nil
			}
		}
	}
}

func (s *httpSession) Answer(p []byte) (wire.Message, error) {
	m := wire.Message{}
	if len(s.waiting) > 0 {
		m.Of = s.waiting[0].call
	}
	switch s.body {
	case sizedBody:
		m.Size = int(min(s.left, int64(len(p))))
		s.left -= int64(m.Size)
		m.Last = s.left == 0
	case openBody:
		m.Size = len(p)
	case chunkedBody:
		data, n, err := httpChunk(p)
		m.Size = n
		if err != nil {
			return m, err
		}
		if n > 0 && data == nil {
			s.body = trailer
		}
	case trailer:
		end := bytes.Index(p, []byte("\r\n"))
		m.Size, m.Last = end+2, end == 0
		if end < 0 {
			return wire.Message{}, nil
		}
	default:
		if err := s.status(&m, p); err != nil {
			return m, err
		}
	}
	if m.Last {
		s.body = noBody
		if len(s.waiting) > 0 {
			m.Failed, s.waiting = s.waiting[0].failed, s.waiting[1:]
		}
	}
	return m, nil
}

// status reads the head of an answer.
func (s *httpSession) status(m *wire.Message, p []byte) error {
	line, head, n, err := httpHead(p)
	if n == 0 || err != nil {
		return err
	}
	_, rest, _ := strings.Cut(line, " ")
	code, err := strconv.Atoi(rest[:min(3, len(rest))])
	if err != nil || !strings.HasPrefix(line, "HTTP/1.") {
		return fmt.Errorf("this is not HTTP/1.1: an answer begins with %q", line[:min(len(line), 40)])
	}
	m.Size = n
	if code == 101 {
		return errors.New("the server changes to another protocol than HTTP/1.1")
	}
	if code < 200 { // the answer comes after it
		m.Of = nil
		return nil
	}
	if code >= 400 && m.Of != nil {
		s.waiting[0].failed = strconv.Itoa(code)
	}
	s.left, err = contentLength(head)
	switch {
	case err != nil:
		return err
	case len(s.waiting) > 0 && s.waiting[0].head, code == 204, code == 304:
		m.Last = true
	case chunked(head):
		s.body = chunkedBody
	case headerOf(head, "Content-Length") != "":
		s.body, m.Last = sizedBody, s.left == 0
	default:
		s.body = openBody
	}
	m.Open = s.body == openBody
	return nil
}
