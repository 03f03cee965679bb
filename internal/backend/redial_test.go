package backend

import (
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"lastitem/internal/testenv/wait"
)

// The ensemble hands out its servers as the client's own provider does, which Java's client has too.
func TestEnsembleLikeTheClientsOwn(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ {
		var servers []string
		for range n {
			servers = append(servers, net.JoinHostPort("127.0.0.1", []string{"1", "2", "3", "4"}[len(servers)]))
		}
		own, ours := zk.NewDNSHostProvider(), &ensemble{}
		if err := own.Init(servers); err != nil {
			t.Fatal(err)
		}
		if err := ours.Init(servers); err != nil || ours.Len() != n {
			t.Fatalf("Init() = %v, %d servers, want %d", err, ours.Len(), n)
		}
		seen := map[string]string{}
		for range 200 {
			if rand.N(4) == 0 {
				own.Connected()
				ours.Connected()
			}
			want, all := own.Next()
			got, gotAll := ours.Next()
			if seen[want] == "" {
				seen[want] = got
			}
			if seen[want] != got || gotAll != all {
				t.Fatalf("Next() = %s, %t, want %s, %t", got, gotAll, seen[want], all)
			}
		}
		if len(seen) != n {
			t.Errorf("%d of %d servers were handed out", len(seen), n)
		}
	}
}

// An etcd that was away is found again soon: its clients go on connecting at short intervals. With gRPC's own back-off so many attempts
// take half an hour.
func TestEtcdIsDialledAgainSoon(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dialled := make(chan struct{}, 1000)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			dialled <- struct{}{}
			_ = c.Close()
		}
	}()
	defer l.Close()
	s, err := Open(Config{Etcd: "http://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	begun := time.Now()
	wait.Until(t, "etcd is dialled 24 times", func() bool { return len(dialled) >= 24 })
	t.Logf("after %s", time.Since(begun))
}
