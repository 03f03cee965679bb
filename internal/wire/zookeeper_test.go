package wire_test

import (
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
