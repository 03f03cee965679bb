package wire_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"lastitem/internal/testenv"
	"lastitem/internal/wire"
)

func TestZooKeeper(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	server := testenv.ZooKeeper(t)
	c, _, err := zk.Connect([]string{tap(t, &r, server.Addr, wire.ZooKeeper)}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err := c.Create(server.Prefix, []byte("1"), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Children(server.Prefix); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(server.Prefix, -1); err != nil {
		t.Fatal(err)
	}
	want(t, []string{"create " + server.Prefix, "getChildren2 " + server.Prefix, "delete " + server.Prefix}, recorded(t, &r))
}

// A command and an answer are held, and the event of a watch is lost, while the session lives.
func TestZooKeeperCuts(t *testing.T) {
	t.Parallel()
	s := testenv.ZooKeeper(t)
	p := newProxy(t, s.Addr, wire.ZooKeeper)
	open := func(addr string) *zk.Conn {
		c, _, err := zk.Connect([]string{addr}, 20*time.Second, zk.WithLogInfo(false))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	far, near := open(p.Addr), open(s.Addr)
	for _, answer := range []bool{false, true} {
		path := fmt.Sprintf("%s-%t", s.Prefix, answer)
		h := p.Add(wire.Rule{Answer: answer, Match: func(c wire.Call) bool { return c.Text == "create "+path }})
		done := make(chan error, 1)
		go func() {
			_, err := far.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			done <- err
		}()
		reached(t, h)
		if there, _, err := near.Exists(path); err != nil || there != answer {
			t.Errorf("while it is held (answer: %t) the node is there: %t, %v", answer, there, err)
		}
		h.Pass()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	path := s.Prefix + "-true"
	_, _, events, err := far.ExistsW(path)
	if err != nil {
		t.Fatal(err)
	}
	lost := p.Add(wire.Rule{Push: true, Match: func(c wire.Call) bool { return c.Text == "deleted "+path }})
	if err := near.Delete(path, -1); err != nil {
		t.Fatal(err)
	}
	reached(t, lost)
	lost.Drop(false)
	if there, _, err := far.Exists(path); there || err != nil {
		t.Errorf("the node is there: %t, %v", there, err)
	}
	select {
	case e := <-events:
		t.Errorf("the lost event came: %+v", e)
	default:
	}
	if len(p.Unanswered()) > 0 || p.Err() != nil {
		t.Error(p.Unanswered(), p.Err())
	}
}
