package gear

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"lastitem/stack"
	"lastitem/target"
)

// ErrNothing means that the hazard has nothing to strike: the victim has no lock, or has locked no row.
var ErrNothing = errors.New("faultlab: nothing to strike at")

// EndSession ends the session of a lock's holder on a lock service; its client stays alive and takes no part in it. The
// lab connects without the proxies. In etcd and Consul it finds the session by the lane's locks, so there must be no
// other holder. ErrNothing: there is no session.
func (p *Place) EndSession(ctx context.Context, holder *Wires, service string) error {
	to := p.linkTo(service)
	if to == nil {
		return ErrNothing
	}
	var n int
	var err error
	switch service {
	case stack.Etcd:
		n, err = endEtcd(ctx, to.url, p.prefix())
	case stack.Consul:
		n, err = endConsul(ctx, to.url, p.prefix())
	case stack.ZooKeeper:
		n, err = endZooKeeper(ctx, to.addr, holder.proxies[service].Sessions())
	}
	if n > 0 || err != nil {
		return err
	}
	return ErrNothing
}

// endEtcd revokes the leases of the keys with the prefix, through etcd's HTTP gateway, and returns their number.
func endEtcd(ctx context.Context, to, from string) (int, error) {
	until := from[:len(from)-1] + ";" // the byte after ":"
	var found struct {
		KVs []struct {
			Lease string `json:"lease"`
		} `json:"kvs"`
	}
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	if err := call(ctx, http.MethodPost, to+"/v3/kv/range",
		map[string]string{"key": encode(from), "range_end": encode(until)}, &found); err != nil {
		return 0, err
	}
	n := 0
	for _, kv := range found.KVs {
		if kv.Lease == "" {
			continue
		}
		n++
		if err := call(ctx, http.MethodPost, to+"/v3/lease/revoke", map[string]string{"ID": kv.Lease}, nil); err != nil {
			return n, err
		}
	}
	return n, nil
}

// endConsul destroys the sessions that hold keys with the prefix, and returns their number.
func endConsul(ctx context.Context, to, prefix string) (int, error) {
	var keys []struct{ Session string }
	err := call(ctx, http.MethodGet, to+"/v1/kv/"+prefix+"?recurse", nil, &keys)
	if err != nil && !errors.Is(err, target.StatusError(http.StatusNotFound)) { // no key at all
		return 0, err
	}
	n := 0
	for _, k := range keys {
		if k.Session == "" {
			continue
		}
		n++
		if err := call(ctx, http.MethodPut, to+"/v1/session/destroy/"+k.Session, nil, nil); err != nil {
			return n, err
		}
	}
	return n, nil
}

// call sends body as JSON and decodes the JSON answer into into; nil = ignores the answer.
func call(ctx context.Context, method, to string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	answer, err := target.Call{Method: method, Path: to, Body: text}.Fetch(ctx, http.DefaultClient, "")
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// endZooKeeper closes sessions and returns their number. A second connection takes each over by its id and
// password, which the proxy saw.
func endZooKeeper(ctx context.Context, addr string, sessions [][]byte) (int, error) {
	for _, session := range sessions {
		if err := closeZooKeeper(ctx, addr, session); err != nil {
			return 0, fmt.Errorf("faultlab: end a session of ZooKeeper: %w", err)
		}
	}
	return len(sessions), nil
}

func closeZooKeeper(ctx context.Context, addr string, session []byte) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	number, password := session[:8], session[8:]
	connect := make([]byte, 12)                           // protocol, last transaction seen
	connect = binary.BigEndian.AppendUint32(connect, 400) // time-out, in milliseconds
	connect = append(connect, number...)
	connect = binary.BigEndian.AppendUint32(connect, uint32(len(password)))
	connect = append(connect, password...)
	if err := askZooKeeper(conn, connect); err != nil {
		return err
	}
	const closeSession = "\x00\x00\x00\x01\xff\xff\xff\xf5" // request 1, of type -11
	return askZooKeeper(conn, []byte(closeSession))
}

// askZooKeeper sends a message and reads the answer to its end.
func askZooKeeper(conn net.Conn, message []byte) error {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(size[:])))
	return err
}

// ageing shortens the life of every key that matches a pattern and has a TTL, as if that time had passed. ARGV:
// pattern, milliseconds.
const ageing = `local n = 0
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local left = redis.call('PTTL', key)
  if left > 0 then
    redis.call('PEXPIRE', key, left - tonumber(ARGV[2]))
    n = n + 1
  end
end
return n`

// Expire makes the locks of a replica expire at their servers at once, and returns how many keys and sessions were
// affected. In every Redis of the lane each key with a TTL loses the lane's TTL from its remaining life; a key without
// a TTL stays. In the services, given by their stack names, the holder's sessions are ended. No clock moves, neither
// the holder's nor a server's. No thread of the holder may run, and there must be no other holder.
func (p *Place) Expire(ctx context.Context, holder *Wires, services ...string) (int, error) {
	pattern := "*" + p.space() + "*"
	if p.alone { // its keys have no prefix
		pattern = "*"
	}
	total := 0
	for _, to := range p.links {
		if to.env != "SHOP_REDIS" && to.env != "SHOP_REDLOCK" {
			continue
		}
		n, err := redisDo(ctx, to.addr, passwordOf(to.url), "EVAL", ageing, "0", pattern,
			strconv.FormatInt(p.TTL.Milliseconds(), 10))
		if err != nil {
			return total, err
		}
		aged, _ := strconv.Atoi(n)
		total += aged
	}
	for _, service := range services {
		switch err := p.EndSession(ctx, holder, service); {
		case err == nil:
			total++
		case !errors.Is(err, ErrNothing):
			return total, err
		}
	}
	return total, nil
}
