package wire

import (
	"strings"
	"testing"
)

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
		"an error later":   {columns + packet(4, "\xfe\x00\x00\x02\x00") + packet(5, "\xff\xb5\x04#HY000time-out"), "ERROR 1205"},
		"half a row":       {columns + packet(4, "\xfe\x00\x00\x02\x00") + "\x05\x00\x00\x05\x01", ""},
		"known columns":    {packet(1, "\x02\x00") + packet(2, "\x011\x0220") + packet(3, "\xfe\x00\x00\x02\x00"), ""},
		"no such length":   {packet(1, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff"), ""},
	} {
		if got := mysqlSaid([]byte(tt.answer)); got != tt.want {
			t.Errorf("%s: mysqlSaid = %q, want %q", name, got, tt.want)
		}
	}
}

// The rows of a prepared statement have another form.
func TestSaidBinary(t *testing.T) {
	t.Parallel()
	const (
		tiny, unsignedTiny = "def\x0c\x3f\x00\x04\x00\x00\x00\x01\x00\x00\x00\x00\x00", "def\x0c\x3f\x00\x04\x00\x00\x00\x01\x20\x00\x00\x00\x00"
		long, text         = "def\x0c\x3f\x00\x14\x00\x00\x00\x08\x00\x00\x00\x00\x00", "def\x0c\x21\x00\x14\x00\x00\x00\xfd\x00\x00\x00\x00\x00"
		date               = "def\x0c\x3f\x00\x14\x00\x00\x00\x0c\x00\x00\x00\x00\x00"
	)
	result := func(row string, columns ...string) []byte {
		all := append([]string{string([]byte{byte(len(columns))})}, columns...)
		return []byte(packets(1, append(all, "\xfe\x00\x00\x02\x00", row, "\xfe\x00\x00\x02\x00")...))
	}
	for name, tt := range map[string]struct {
		answer []byte
		want   string
	}{
		"whole numbers":  {result("\x00\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xfb\xfb", long, tiny, unsignedTiny), "-2, -5, 251"},
		"text and NULL":  {result("\x00\x08\x02ab\x00", text, tiny, text), "ab, NULL, "},
		"a time":         {result("\x00\x00\x00", date), ""},
		"half a number":  {result("\x00\x00\x01\x02", long), ""},
		"half of a text": {result("\x00\x00\x05ab", text), ""},
		"no row":         {[]byte(packets(1, "\x01", long, "\xfe\x00\x00\x02\x00", "\xfe\x00\x00\x02\x00")), "0 rows"},
		"changed one":    {[]byte(packets(1, "\x00\x01\x00\x02\x00\x00\x00")), "1 row"},
	} {
		if got := mysqlSaidBinary(tt.answer); got != tt.want {
			t.Errorf("%s: mysqlSaidBinary = %q, want %q", name, got, tt.want)
		}
	}
}

// The kept part of a long answer is its beginning, without gaps.
func TestKeepLongAnswer(t *testing.T) {
	t.Parallel()
	k := &call{holds: []*Hold{{}}}
	for _, part := range []string{"begin", strings.Repeat("x", 2*mostKept), "end"} {
		k.keep([]byte(part))
	}
	if got := string(k.raw); got != "begin"+strings.Repeat("x", mostKept-len("begin")) {
		t.Errorf("kept %d bytes, which end with %q", len(got), got[max(0, len(got)-8):])
	}
}
