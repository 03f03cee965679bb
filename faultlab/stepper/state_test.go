package stepper

import "testing"

func TestShort(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"redis: GET lane0:stock:{1001}": "redis: GET stock:{1001}",
		`redis: EVALSHA 'Takes a free lock and its fencing token in one step: with INCR as a command of its own, a holder ` +
			`whose' lane#:lock:fencing:{#}`: "redis: EVALSHA 'Takes a free lock and its fencing token in one step' " +
			"lock:fencing:{1001}",
		`redis: EVALSHA "Deletes the lock only if it is still the caller's: compare and delete as one step" ` +
			`lane#:lock:fencing:{#}`: "redis: EVALSHA 'Deletes the lock only if it is still the caller's' lock:fencing:{1001}",
		"redis: EVALSHA 'Leaves the lock once; the last leave deletes it and tells the waiters' lane#:lock:watchdog:{#}": "redis: EVALSHA 'Leaves the lock once' lock:watchdog:{1001}",
		"redis: EVALSHA 'Takes a free lock, or queues for it' lane#:lock:key:{*}":                                        "redis: EVALSHA 'Takes a free lock, or queues for it' lock:key:{*}",
		"sql: SELECT id, mode, state, late FROM reservation WHERE id = 'lab-0-17-4' FOR UPDATE":                          "sql: SELECT state, expires_us, … FROM reservation WHERE id = 'key-4' FOR UPDATE",
		"sql: SELECT i.run FROM reservation_item i JOIN orders o ON o.id = i.id WHERE i.id = 1":                          "sql: SELECT … FROM reservation_item … WHERE i.id = 1",
		"sql: INSERT INTO orders (id, fence) VALUES ('01a20b52-c476-7e65-bfd4-bd98ea9006bd', _binary'order-A', 0)":       "sql: INSERT INTO orders (…) VALUES ('…9006bd', 'order-A', 0)",
		`'{"id":"01a20b52-c476-7e65-bfd4-bd98ea9006bd","product_id":1001,"remaining":0,"replica":"A"}'`:                  "'{order …9006bd by A, remaining 0}'",
		`{"id":"01a20b52-c476-7e65-bfd4-bd98ea9006bd","replica":"B"}`:                                                    "{order …9006bd by B}",
	} {
		if got := short(text); got != want {
			t.Errorf("short(%s)\n= %s, want\n  %s", text, got, want)
		}
	}
}
