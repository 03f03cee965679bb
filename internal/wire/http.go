package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/net/http2/hpack"
)

// HTTP reads requests of HTTP/1.1 whose length is told (Consul's clients): method, path and body.
func HTTP() (sent, heard Reader) {
	var buf []byte
	return func(p []byte) (calls []*Call) {
		buf = append(buf, p...)
		for {
			head, rest, whole := bytes.Cut(buf, []byte("\r\n\r\n"))
			size := contentLength(head)
			if !whole || len(rest) < size {
				return calls
			}
			line, _, _ := strings.Cut(string(head), "\r\n")
			text := strings.TrimSuffix(line, " HTTP/1.1")
			if size > 0 {
				text += " " + quote(strings.TrimSpace(string(rest[:size])))
			}
			calls = append(calls, &Call{Text: text})
			buf = rest[size:]
		}
	}, nil
}

var lengthHeader = regexp.MustCompile(`(?im)^content-length: *(\d+)`)

func contentLength(head []byte) int {
	found := lengthHeader.FindSubmatch(head)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		return 0
	}
	return n
}

// What is needed of HTTP/2, by RFC 9113.
const (
	http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHead    = 9
	frameData    = 0
	frameHeaders = 1
	flagPadded   = 0x8
	flagPriority = 0x20
)

// GRPC reads the messages of gRPC: which method, and what it is asked for where the method is one of etcd's that locks are made
// of, else how long the message is.
func GRPC() (sent, heard Reader) {
	var buf []byte
	begun := false
	paths := map[uint32]string{} // by stream
	path := ""
	headers := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == ":path" {
			path = f.Value
		}
	})
	return func(p []byte) (calls []*Call) {
		buf = append(buf, p...)
		if !begun {
			if len(buf) < len(http2Preface) {
				return nil
			}
			buf, begun = buf[len(http2Preface):], true
		}
		for len(buf) >= frameHead {
			size := int(buf[0])<<16 | int(buf[1])<<8 | int(buf[2])
			if len(buf) < frameHead+size {
				break
			}
			kind, flags, stream := buf[3], buf[4], binary.BigEndian.Uint32(buf[5:])
			body := buf[frameHead : frameHead+size]
			switch kind {
			case frameHeaders:
				path = ""
				if _, err := headers.Write(headerBlock(body, flags)); err == nil && path != "" {
					paths[stream] = path
				}
			case frameData:
				if size > 5 { // gRPC puts five bytes before each message
					calls = append(calls, &Call{Text: etcdText(paths[stream], body[5:])})
				}
			}
			buf = buf[frameHead+size:]
		}
		return calls
	}, nil
}

// etcdText writes a request to etcd as its own library does, or says how long the message is.
func etcdText(path string, message []byte) string {
	var request interface {
		Unmarshal(b []byte) error
		String() string
	}
	service, method, _ := strings.Cut(strings.TrimPrefix(path, "/etcdserverpb."), "/")
	switch path {
	case "/etcdserverpb.KV/Range":
		request = &pb.RangeRequest{}
	case "/etcdserverpb.KV/Put":
		request = &pb.PutRequest{}
	case "/etcdserverpb.KV/DeleteRange":
		request = &pb.DeleteRangeRequest{}
	case "/etcdserverpb.KV/Txn":
		request = &pb.TxnRequest{}
	case "/etcdserverpb.Lease/LeaseGrant":
		request = &pb.LeaseGrantRequest{}
	case "/etcdserverpb.Lease/LeaseRevoke":
		request = &pb.LeaseRevokeRequest{}
	case "/etcdserverpb.Watch/Watch":
		request = &pb.WatchRequest{}
	}
	if request == nil || request.Unmarshal(message) != nil {
		return fmt.Sprintf("%s (%d bytes)", path, len(message))
	}
	return service + "." + method + " " + strings.TrimSpace(request.String())
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
