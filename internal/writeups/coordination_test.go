package writeups_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// lockService calls etcd's own lock service, as jetcd does, by its JSON gateway.
func (s *story) lockService(endpoint, call string, request map[string]any) (key string) {
	s.Helper()
	body, err := json.Marshal(request)
	testkit.Must(s, err)
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, endpoint+"/v3/lock/"+call, bytes.NewReader(body))
	testkit.Must(s, err)
	resp, err := http.DefaultClient.Do(r)
	testkit.Must(s, err)
	defer func() { _ = resp.Body.Close() }()
	var answer struct{ Key []byte }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		s.Fatalf("%s: %s, %v", call, resp.Status, err)
	}
	return string(answer.Key)
}

// lockResponse.getKey().toString(), kept for the release: in jetcd 0.5 that is the name of a class and a hash code.
// etcd unlocks any key without an error, whether there is one or not.
func TestJetcdUnlocksAnotherKey(t *testing.T) {
	s := tell(t)
	server := testenv.Etcd(t)
	c, ctx := server.EtcdClient(t), t.Context()
	endpoint := "http://" + c.Endpoints()[0]
	lease, err := c.Grant(ctx, 60)
	testkit.Must(t, err)
	t.Cleanup(func() { _, _ = c.Revoke(context.Background(), lease.ID) })
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	key := s.lockService(endpoint, "lock", map[string]any{"name": encode(server.Prefix + "stock"),
		"lease": fmt.Sprint(int64(lease.ID))})
	holders := func(want int64) {
		t.Helper()
		r, err := c.Get(ctx, server.Prefix+"stock/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		testkit.Must(t, err)
		s.is("", "keys below stock/", fmt.Sprint(r.Count), fmt.Sprint(want))
	}
	s.says("A", "lock stock, with A's lease", "ok")
	holders(1)
	const wrong = "io.etcd.jetcd.ByteSequence@ffec13b8"
	s.lockService(endpoint, "unlock", map[string]any{"key": encode(wrong)})
	s.says("A", "unlock "+wrong, "ok")
	holders(1)
	s.note("no error, and A still has the lock until its lease ends. Keep the bytes of the key")
	s.lockService(endpoint, "unlock", map[string]any{"key": encode(key)})
	s.says("A", "unlock the key of the answer", "ok")
	holders(0)
}

// The etcd lock in six steps: a waiter takes the DELETE of the key in front of it for the lock, though that key was a
// waiter's.
func TestEtcdDoesNotLookAgain(t *testing.T) {
	s := tell(t)
	server := testenv.Etcd(t)
	c, ctx := server.EtcdClient(t), t.Context()
	at := func(who string) string { return server.Prefix + "lock/" + who }
	inFront := func(who string) (n int) {
		t.Helper()
		all, err := c.Get(ctx, at(""), clientv3.WithPrefix(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		testkit.Must(t, err)
		return slices.IndexFunc(all.Kvs, func(kv *mvccpb.KeyValue) bool { return string(kv.Key) == at(who) })
	}
	var last int64
	for i, who := range []string{"A", "B", "C"} {
		put, err := c.Put(ctx, at(who), "")
		testkit.Must(t, err)
		last = put.Header.Revision
		s.is(who, "put lock/"+who+"; get lock/ --prefix, by revision", fmt.Sprintf("%d in front", inFront(who)),
			fmt.Sprintf("%d in front", i))
	}
	watching, stop := context.WithTimeout(ctx, soon)
	defer stop()
	gone := c.Watch(watching, at("B"), clientv3.WithRev(last+1))
	s.says("C", "watch lock/B", "")
	_, err := c.Delete(ctx, at("B"))
	testkit.Must(t, err)
	s.says("", "B gives up, or its lease ends", "")
	event := <-gone
	if len(event.Events) == 0 {
		t.Fatalf("C was not woken: %v", event.Err())
	}
	s.is("C", "woken", event.Events[0].Type.String(), "DELETE")
	s.note("C takes the event for the lock, as steps 4 and 5 say, but A holds the lock")
	s.is("C", "get lock/ --prefix, once more", fmt.Sprintf("%d in front", inFront("C")), "1 in front")
	s.note("C looks again, sees A in front of it, and watches A's key")
}

// naive is the ZooKeeper lock as it is often written down.
type naive struct {
	*zk.Conn
	root, own string
}

// queue makes the client's node, and returns what is in front of it.
func (n *naive) queue(s *story) (before []string) {
	s.Helper()
	made, err := n.Create(n.root+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	testkit.Must(s, err)
	n.own = path.Base(made)
	names, _, err := n.Children(n.root)
	testkit.Must(s, err)
	slices.Sort(names)
	return names[:slices.Index(names, n.own)]
}

// wait returns when the predecessor is gone, and takes that for the lock: it does not look again who is in front of it.
func (n *naive) wait(predecessor string) <-chan zk.Event {
	_, _, gone, err := n.ExistsW(n.root + "/" + predecessor)
	if err != nil {
		panic(err)
	}
	return gone
}

// The predecessor was no holder but a waiter, and it died.
func TestZooKeeperDoesNotLookAgain(t *testing.T) {
	s := tell(t)
	server := testenv.ZooKeeper(t)
	admin := server.ZooKeeperConn(t, time.Minute)
	_, err := admin.Create(server.Prefix, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	testkit.Must(t, err)
	var clients []*naive
	for i, who := range []string{"A", "B", "C"} {
		n := &naive{Conn: server.ZooKeeperConn(t, time.Minute), root: server.Prefix}
		clients = append(clients, n)
		before := n.queue(s)
		create := fmt.Sprintf("create -e -s /lock/lock-       # lock-%010d", i)
		s.is(who, create, fmt.Sprintf("%d in front", len(before)), fmt.Sprintf("%d in front", i))
	}
	b, c := clients[1], clients[2]
	gone := c.wait(b.own)
	s.says("C", "exists -w /lock/"+b.own, "watches B")
	b.Close()
	s.says("", "B's session ends", "")
	select {
	case e := <-gone:
		s.is("C", "woken", e.Type.String(), "EventNodeDeleted")
	case <-time.After(soon):
		t.Fatal("C was not woken")
	}
	s.note("C takes the event for the lock, but A holds the lock")
	names, _, err := c.Children(c.root)
	testkit.Must(t, err)
	slices.Sort(names)
	s.is("C", "ls /lock, once more", fmt.Sprintf("%d in front", slices.Index(names, c.own)), "1 in front")
	s.note("C looks again, sees A in front of it, and watches A's node")
}

// native is the lock of a listing for ZooKeeper's own client: one latch that is opened once, and an exception that is
// printed.
type native struct {
	naive
	latch chan struct{}
}

// lock is zkLock(). between is what happens between the list of children and the look at the predecessor, and watching
// what happens once that is watched. It returns what the listing did not notice.
func (n *native) lock(s *story, between, watching func()) (unnoticed string) {
	s.Helper()
	before := n.queue(s)
	if len(before) == 0 {
		return "it is the first"
	}
	between()
	_, _, gone, err := n.GetW(n.root + "/" + before[len(before)-1])
	if err != nil {
		return err.Error() // e.printStackTrace(), and the method returns
	}
	watching()
	open := n.latch
	go func() {
		if e := <-gone; e.Type == zk.EventNodeDeleted {
			close(open)
		}
	}()
	select {
	case <-n.latch:
		return "the latch was open"
	case <-time.After(soon):
		return "it waits"
	}
}

// The listing for ZooKeeper's own client: a predecessor that has gone before it was watched is an exception, which is
// printed, and the caller takes the return for the lock. And its latch opens once: whoever locks with it again does not
// wait.
func TestZooKeeperNoNodeIsNoLock(t *testing.T) {
	s := tell(t)
	server := testenv.ZooKeeper(t)
	admin := server.ZooKeeperConn(t, time.Minute)
	_, err := admin.Create(server.Prefix, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	testkit.Must(t, err)
	var clients []*native
	for range 3 {
		clients = append(clients, &native{naive{Conn: server.ZooKeeperConn(t, time.Minute), root: server.Prefix},
			make(chan struct{})})
	}
	a, b, c := clients[0], clients[1], clients[2]
	s.is("A", "zkLock()", a.lock(s, nil, nil), "it is the first")
	s.says("B", "zkLock()", fmt.Sprintf("%d in front", len(b.queue(s))))
	s.is("C", "zkLock(): getChildren; B's session ends; getData(waitPath)", c.lock(s, func() {
		b.Close()
		testkit.Until(s, "B's node is gone", func() bool {
			there, _, err := admin.Exists(server.Prefix + "/" + b.own)
			return err == nil && !there
		})
	}, nil), zk.ErrNoNode.Error())
	s.note("the exception is printed and zkLock() returns: C works, and so does A. List the children again until your " +
		"node is the first")
	s.zookeeperLatch(a, c)
}

// zookeeperLatch has c lock for the second time, after its latch has opened once, while a holds the lock.
func (s *story) zookeeperLatch(a, c *native) {
	s.Helper()
	unlock := func(who string, n *native) {
		s.Helper()
		s.is(who, "zkUnlock()", fmt.Sprint(n.Delete(n.root+"/"+n.own, -1)), "<nil>")
	}
	unlock("C", c)
	first, watched := make(chan string, 1), make(chan struct{})
	go func() { first <- c.lock(s, func() {}, func() { close(watched) }) }()
	select {
	case <-watched:
	case <-time.After(soon):
		s.Fatal("C does not wait for A")
	}
	unlock("A", a)
	s.is("C", "zkLock() again, which waits for A's zkUnlock()", <-first, "the latch was open")
	unlock("C", c)
	s.is("A", "zkLock()", a.lock(s, nil, nil), "it is the first")
	s.is("C", "zkLock()", c.lock(s, func() {}, func() {}), "the latch was open")
	s.note("A has the lock, but C's latch has opened once and stays open. Use a new latch for each wait")
}
