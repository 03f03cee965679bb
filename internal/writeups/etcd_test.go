package writeups_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"lastitem/internal/testenv"
)

// lockService calls etcd's own lock service, as jetcd does, by its JSON gateway.
func (s *story) lockService(endpoint, call string, request map[string]any) (key string) {
	s.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		s.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, endpoint+"/v3/lock/"+call, bytes.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct{ Key []byte }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		s.Fatalf("%s: %s, %v", call, resp.Status, err)
	}
	return string(answer.Key)
}

// lockResponse.getKey().toString(), kept for the release: in jetcd 0.5 that is the name of a class and a hash code. etcd unlocks any key without
// an error, whether there is one or not.
func TestJetcdUnlocksAnotherKey(t *testing.T) {
	s := tell(t)
	server := testenv.Etcd(t)
	c, ctx := server.EtcdClient(t), t.Context()
	endpoint := "http://" + c.Endpoints()[0]
	lease, err := c.Grant(ctx, 60)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Revoke(context.Background(), lease.ID) })
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	key := s.lockService(endpoint, "lock", map[string]any{"name": encode(server.Prefix + "stock"), "lease": fmt.Sprint(int64(lease.ID))})
	holders := func(want int64) {
		t.Helper()
		r, err := c.Get(ctx, server.Prefix+"stock/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
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
