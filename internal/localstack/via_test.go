package localstack

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Each replica is told the address that Via gives for it, where a server has one at all.
func TestVia(t *testing.T) {
	t.Parallel()
	s := startStack(t, Options{Replicas: 2, Backend: Embedded, Only: []string{Kafka}, Via: func(x Service, replica int) (string, error) {
		return fmt.Sprintf("%s-%d.example:1", x.Name, replica), nil
	}})
	for i, r := range s.Replicas {
		env := envOf(t, r.Addr)
		want := map[string]string{
			"SHOP_REDIS": fmt.Sprintf("redis://redis-%d.example:1/0", i+1),
			"SHOP_KAFKA": fmt.Sprintf("kafka-%d.example:1", i+1),
			"SHOP_SQL":   s.SQL.URL, // a file
			"SHOP_ETCD":  "",
		}
		for name, value := range want {
			if env[name] != value {
				t.Errorf("replica %d: %s = %q, want %q", i+1, name, env[name], value)
			}
		}
	}
}

func TestViaFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("no more files")
	s, err := Start(t.Context(), Options{Replicas: 1, Backend: Embedded, Only: []string{}, Via: func(Service, int) (string, error) {
		return "", broken
	}})
	if err == nil {
		_ = s.Close()
	}
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "replica 1 to redis") {
		t.Errorf("Start() = %v, want %q with the replica and the server", err, broken)
	}
}
