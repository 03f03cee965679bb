package writeups_test

import (
	"fmt"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"lastitem/internal/testenv"
)

// naive is the ZooKeeper lock as it is often written down.
type naive struct {
	*zk.Conn
	root, own string
}

// queue makes the client's node, and returns what is in front of it.
func (n *naive) queue(s *story) (before []string) {
	s.Helper()
	made, err := n.Create(n.root+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		s.Fatal(err)
	}
	n.own = path.Base(made)
	names, _, err := n.Children(n.root)
	if err != nil {
		s.Fatal(err)
	}
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
	t.Parallel()
	s := tell(t)
	server := testenv.ZooKeeper(t)
	admin := server.ZooKeeperConn(t, time.Minute)
	if _, err := admin.Create(server.Prefix, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
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
	s.note("C takes this for the lock, which A has")
	names, _, err := c.Children(c.root)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	s.is("C", "ls /lock, once more", fmt.Sprintf("%d in front", slices.Index(names, c.own)), "1 in front")
	s.note("who looks again sees A, and watches it")
}
