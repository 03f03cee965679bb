package rig

import (
	"testing"

	"lastitem/internal/localstack"
)

// Cutting the append-only file back to an earlier length loses the writes since then, and no earlier ones.
func TestRestartFrom(t *testing.T) {
	t.Parallel()
	l := serversOnly(t, Equipment{Conf: "appendonly yes;appendfsync everysec"})
	length := func() int64 {
		t.Helper()
		n, err := l.Logged(t.Context(), localstack.Redis)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	empty := length()
	tell(t, l, localstack.Redis, "SET", "kept", "v")
	synced := length()
	tell(t, l, localstack.Redis, "SET", "lost", "v")
	if all := length(); empty >= synced || synced >= all {
		t.Errorf("Logged = %d, %d, %d after 0, 1 and 2 commands, want more each time", empty, synced, all)
	}
	if err := l.RestartFrom(t.Context(), localstack.Redis, synced); err != nil {
		t.Fatal(err)
	}
	if got := tell(t, l, localstack.Redis, "KEYS", "*"); got != "kept" {
		t.Errorf("KEYS = %q after the last command was cut off, want \"kept\"", got)
	}
}
