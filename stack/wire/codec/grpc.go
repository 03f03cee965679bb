package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/http2/hpack"

	"lastitem/stack/wire"
)

// GRPC reads gRPC over HTTP/2 without TLS. A message of a client is a call. If it is alone on its stream, the end of
// the stream from the server completes the answer, else the server's next message does. Any other message of the server
// is a push. Streams do not wait for each other: the proxy writes headers without the compression table, which depends
// on their order. It drops deadlines: the server would count from the headers, and refuse what was held longer. A
// client that gives up also cancels its stream.
var GRPC = wire.Codec{Plain: true, Begin: func() wire.Session {
	s := &grpcSession{streams: map[uint32]*grpcStream{}}
	s.up.decoder, s.down.decoder = hpack.NewDecoder(1<<20, nil), hpack.NewDecoder(1<<20, nil)
	return s
}}

// What is needed of HTTP/2, by RFC 9113.
const (
	http2Preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHead     = 9
	frameData     = 0
	frameHeaders  = 1
	frameReset    = 3
	framePromise  = 5
	frameMore     = 9 // CONTINUATION
	flagEndStream = 0x1
	flagEndHead   = 0x4
	flagPadded    = 0x8
	flagPriority  = 0x20
	largestFrame  = 16 << 10 // that every peer takes
	gathered      = 32 << 10 // is less than any window
)

type grpcSession struct {
	begun    bool
	up, down grpcSide
	streams  map[uint32]*grpcStream
}

// grpcSide is one direction. A frame of data is cut where its messages end; left is how much of one is not cut yet.
type grpcSide struct {
	decoder *hpack.Decoder
	left    int
	stream  uint32
	ends    bool
}

type grpcStream struct {
	path            string
	waiting         []*wire.Command
	asked, answered grpcMessage
	asking          bool   // the client may send more
	kept            []byte // frames of an answer that is not whole
}

// grpcMessage gathers a message: five bytes, and as many as the last four of them say.
type grpcMessage struct{ bytes []byte }

// take takes what belongs to the message from p, and returns how much that is, and the message when it is whole.
func (m *grpcMessage) take(p []byte) (n int, message []byte) {
	for {
		need := 5
		if len(m.bytes) >= 5 {
			need += int(binary.BigEndian.Uint32(m.bytes[1:]))
		}
		part := min(need-len(m.bytes), len(p)-n)
		m.bytes = append(m.bytes, p[n:n+part]...)
		n += part
		if len(m.bytes) < need {
			return n, nil
		}
		if need > 5 || binary.BigEndian.Uint32(m.bytes[1:]) == 0 {
			message, m.bytes = m.bytes[5:], nil
			return n, message
		}
	}
}

func (s *grpcSession) Command(p []byte) (wire.Message, error) {
	if !s.begun {
		n := min(len(p), len(http2Preface))
		if string(p[:n]) != http2Preface[:n] {
			return wire.Message{}, errors.New("this is not gRPC: the client does not begin with HTTP/2")
		}
		if n < len(http2Preface) {
			return wire.Message{}, nil
		}
		s.begun = true
		return wire.Message{Size: n}, nil
	}
	return s.frame(&s.up, p)
}

func (s *grpcSession) Answer(p []byte) (wire.Message, error) { return s.frame(&s.down, p) }

// frame reads the next frame, or what is left of one.
func (s *grpcSession) frame(side *grpcSide, p []byte) (wire.Message, error) {
	if side.left > 0 {
		return s.data(side, p[:side.left], 0), nil
	}
	f, n, err := http2Frame(p)
	if n == 0 || err != nil {
		return wire.Message{}, err
	}
	m := wire.Message{Size: n}
	switch f.kind {
	case frameHeaders:
		return s.headers(side, f, p)
	case frameData:
		if f.flags&flagPadded != 0 || len(f.body) == 0 {
			m.Stream = f.stream
			s.ended(side, &m, f.flags&flagEndStream != 0)
			return m, nil
		}
		side.left, side.stream, side.ends = len(f.body), f.stream, f.flags&flagEndStream != 0
		return s.data(side, f.body, frameHead), nil
	case frameReset:
		m.Stream = f.stream
		m.Cancel = side == &s.up
		if !m.Cancel {
			s.ended(side, &m, true)
			m.Failed = "RST_STREAM"
		}
	case framePromise, frameMore:
		return m, fmt.Errorf("this is not gRPC: a frame of kind %d", f.kind)
	}
	return m, nil
}

type frame struct {
	kind, flags byte
	stream      uint32
	body        []byte
}

func http2Frame(p []byte) (f frame, n int, err error) {
	if len(p) < frameHead {
		return f, 0, nil
	}
	size := int(p[0])<<16 | int(p[1])<<8 | int(p[2])
	f.kind, f.flags, f.stream = p[3], p[4], binary.BigEndian.Uint32(p[5:])&(1<<31-1)
	if f.kind > 0x10 { // of which there are nine, and a few extensions
		return f, 0, fmt.Errorf("this is not gRPC: a frame of kind %d", f.kind)
	}
	if len(p) < frameHead+size {
		return f, 0, nil
	}
	f.body = p[frameHead : frameHead+size]
	return f, frameHead + size, nil
}

func appendFrame(to []byte, kind, flags byte, stream uint32, body []byte) []byte {
	to = append(to, byte(len(body)>>16), byte(len(body)>>8), byte(len(body)), kind, flags)
	return append(binary.BigEndian.AppendUint32(to, stream), body...)
}

// headers writes the headers of a stream again, so that they may pass those of other streams.
func (s *grpcSession) headers(side *grpcSide, f frame, p []byte) (wire.Message, error) {
	block, used := bytes.Clone(headerBlock(f.body, f.flags)), frameHead+len(f.body)
	for flags := f.flags; flags&flagEndHead == 0; {
		more, n, err := http2Frame(p[used:])
		if n == 0 || err != nil {
			return wire.Message{}, err
		}
		if more.kind != frameMore || more.stream != f.stream {
			return wire.Message{}, errors.New("this is not gRPC: headers that do not go on")
		}
		block, flags, used = append(block, more.body...), more.flags, used+n
	}
	fields, err := side.decoder.DecodeFull(block)
	if err != nil {
		return wire.Message{}, fmt.Errorf("this is not gRPC: %w", err)
	}
	m := wire.Message{Size: used, Stream: f.stream, Data: http2Headers(f, fields)}
	get := func(name string) string {
		for _, field := range fields {
			if field.Name == name {
				return field.Value
			}
		}
		return ""
	}
	if path := get(":path"); side == &s.up && path != "" {
		s.streams[f.stream] = &grpcStream{path: path, asking: true}
	}
	if status := get("grpc-status"); status != "0" {
		m.Failed = status
	}
	s.ended(side, &m, f.flags&flagEndStream != 0)
	return m, nil
}

func http2Headers(f frame, fields []hpack.HeaderField) (frames []byte) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range fields {
		if field.Name == "grpc-timeout" {
			continue
		}
		field.Sensitive = true // is not put into the table
		_ = encoder.WriteField(field)
	}
	kind, flags := byte(frameHeaders), f.flags&flagEndStream
	for {
		part := block.Next(largestFrame)
		if block.Len() == 0 {
			return appendFrame(frames, kind, flags|flagEndHead, f.stream, part)
		}
		frames = appendFrame(frames, kind, flags, f.stream, part)
		kind, flags = frameMore, 0
	}
}

// data reads the next piece of a frame of data: up to the end of a message. head is the length of what stands before it
// in the frame.
func (s *grpcSession) data(side *grpcSide, body []byte, head int) wire.Message {
	m := wire.Message{Stream: side.stream}
	st := s.streams[side.stream]
	n, whole := len(body), []byte(nil)
	switch {
	case st == nil:
	case side == &s.up:
		n, whole = st.asked.take(body)
	default:
		n, whole = st.answered.take(body)
	}
	side.left -= n
	m.Size = head + n
	flags := byte(0)
	if side.left == 0 && side.ends {
		flags = flagEndStream
	}
	m.Data = appendFrame(make([]byte, 0, frameHead+n), frameData, flags, side.stream, body[:n])
	switch {
	case st == nil:
	case side == &s.down:
		s.answered(st, &m, whole)
	case whole != nil:
		m.Command = &wire.Command{}
		m.Command.Text, m.Command.Pattern = etcdText(st.path, whole)
		m.Command.Poll = strings.HasSuffix(st.path, "/Watch") || strings.HasSuffix(st.path, "/LeaseKeepAlive")
		st.waiting = append(st.waiting, m.Command)
	}
	s.ended(side, &m, flags != 0)
	return m
}

// answered says whose answer a piece of data is. Where a stream has several, a message is kept until it is whole, so
// that it can be lost alone, unless it is too long for that.
func (s *grpcSession) answered(st *grpcStream, m *wire.Message, whole []byte) {
	if !st.asking {
		if len(st.waiting) > 0 {
			m.Of = st.waiting[0]
		}
		return
	}
	if whole == nil && len(st.kept)+len(m.Data) < gathered {
		st.kept, m.Data = append(st.kept, m.Data...), []byte{}
		return
	}
	m.Data, st.kept = append(st.kept, m.Data...), nil
	text, push := etcdPush(st.path, whole)
	switch {
	case whole == nil:
	case push != "" || len(st.waiting) == 0:
		m.Push = &wire.Command{}
		m.Push.Text, m.Push.Pattern = text, push
	default:
		m.Of, m.Last = st.waiting[0], true
		st.waiting = st.waiting[1:]
	}
}

// ended notes that one side of a stream ends. With the server's, all is answered.
func (s *grpcSession) ended(side *grpcSide, m *wire.Message, ends bool) {
	st := s.streams[m.Stream]
	switch {
	case st == nil:
	case side == &s.up:
		st.asking = st.asking && !ends
	case ends:
		if len(st.waiting) > 0 && m.Of == nil || len(st.waiting) > 0 && m.Of == st.waiting[0] {
			m.Of, m.Last, st.waiting = st.waiting[0], true, st.waiting[1:]
		}
		m.Over = st.waiting
		delete(s.streams, m.Stream)
	case len(st.waiting) > 0 && !st.asking && m.Of == nil:
		m.Of = st.waiting[0]
	}
}

// headerBlock is a HEADERS frame without what may stand around the headers.
func headerBlock(body []byte, flags byte) []byte {
	padding := 0
	if flags&flagPadded != 0 && len(body) > 0 {
		padding, body = int(body[0]), body[1:]
	}
	if flags&flagPriority != 0 && len(body) >= 5 {
		body = body[5:]
	}
	return body[:max(0, len(body)-padding)]
}
