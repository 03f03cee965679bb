package wire_test

import (
	"testing"

	"lastitem/internal/testenv"
	"lastitem/internal/wire"
)

func TestGRPC(t *testing.T) {
	t.Parallel()
	var r wire.Recorder
	etcd := testenv.Etcd(t)
	tapped := testenv.Coordination{Addr: tap(t, &r, etcd.Addr, wire.GRPC), Prefix: etcd.Prefix}
	c := tapped.EtcdClient(t)
	r.Forget() // what the client has said to see that it can
	if _, err := c.Put(t.Context(), etcd.Prefix+"a", "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), etcd.Prefix+"a"); err != nil {
		t.Fatal(err)
	}
	want(t, []string{
		`KV.Put key:"` + etcd.Prefix + `a" value:"1"`, `KV.Range key:"` + etcd.Prefix + `a"`,
	}, recorded(t, &r))
}
