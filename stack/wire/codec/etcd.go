package codec

import (
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// etcdText writes a request to etcd as its own library does, or says how long the message is; and its pattern.
func etcdText(path string, message []byte) (text, pattern string) {
	var request interface {
		Unmarshal(b []byte) error
		String() string
	}
	service, method, _ := strings.Cut(strings.TrimPrefix(path, "/etcdserverpb."), "/")
	pattern = service + "." + method
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
		return fmt.Sprintf("%s (%d bytes)", path, len(message)), pattern
	}
	switch r := request.(type) {
	case interface{ GetKey() []byte }:
		pattern += " " + Key(string(r.GetKey()))
	case *pb.TxnRequest:
		for _, c := range r.Compare {
			pattern += " if " + Key(string(c.Key))
		}
		for _, op := range r.Success {
			pattern += " " + etcdOperation(op)
		}
	case *pb.WatchRequest:
		if create := r.GetCreateRequest(); create != nil {
			pattern += " " + Key(string(create.Key))
		}
	}
	return service + "." + method + " " + strings.TrimSpace(request.String()), pattern
}

func etcdOperation(op *pb.RequestOp) string {
	switch r := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return "range " + Key(string(r.RequestRange.GetKey()))
	case *pb.RequestOp_RequestPut:
		return "put " + Key(string(r.RequestPut.GetKey()))
	case *pb.RequestOp_RequestDeleteRange:
		return "delete " + Key(string(r.RequestDeleteRange.GetKey()))
	}
	return "txn"
}

// etcdPush is what a server says on a stream of its own accord; pattern "" = it answers.
func etcdPush(path string, message []byte) (text, pattern string) {
	if path != "/etcdserverpb.Watch/Watch" {
		return "", ""
	}
	var r pb.WatchResponse
	if r.Unmarshal(message) != nil || r.Created || r.Canceled {
		return "", ""
	}
	text, pattern = "events", "events"
	for _, e := range r.Events {
		if e.Kv == nil {
			continue
		}
		text += " " + e.Type.String() + " " + string(e.Kv.Key)
		pattern += " " + e.Type.String() + " " + Key(string(e.Kv.Key))
	}
	return text, pattern
}
