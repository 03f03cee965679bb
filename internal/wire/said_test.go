package wire

import "testing"

func TestSaid(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]string{
		"$1\r\n7\r\n": "7", "$-1\r\n": "nil", "_\r\n": "nil", "*-1\r\n": "nil", "+OK\r\n": "OK", ":3\r\n": "3", "-ERR no\r\n": "ERR no",
		"*2\r\n$1\r\na\r\n:2\r\n": "[a, 2]", "$5\r\nab": "", "": "",
	} {
		if got := respSaid([]byte(reply)); got != want {
			t.Errorf("respSaid(%q) = %q, want %q", reply, got, want)
		}
	}
	packet := func(n byte, body string) string { return string([]byte{byte(len(body)), 0, 0, n}) + body }
	columns := packet(1, "\x02") + packet(2, "def of stock") + packet(3, "def of seq")
	for name, tt := range map[string]struct{ answer, want string }{
		"changed one":      {packet(1, "\x00\x01\x00\x02\x00\x00\x00"), "1 row"},
		"changed none":     {packet(1, "\x00\x00\x00\x02\x00\x00\x00"), "0 rows"},
		"an error":         {packet(1, "\xff\xb5\x04#40001deadlock"), "ERROR 1205"},
		"a row":            {columns + packet(4, "\xfe\x00\x00\x02\x00") + packet(5, "\x011\xfb") + packet(6, "\xfe\x00\x00\x02\x00"), "1, NULL"},
		"without an EOF":   {columns + packet(4, "\x011\x0220"), "1, 20"},
		"no row":           {columns + packet(4, "\xfe\x00\x00\x02\x00") + packet(5, "\xfe\x00\x00\x02\x00"), "0 rows"},
		"half a result":    {packet(1, "\x02") + packet(2, "def of stock"), ""},
		"nothing so far":   {"", ""},
		"half of a packet": {"\x05\x00\x00\x01\x00", ""},
	} {
		if got := mysqlSaid([]byte(tt.answer)); got != tt.want {
			t.Errorf("%s: mysqlSaid = %q, want %q", name, got, tt.want)
		}
	}
}
