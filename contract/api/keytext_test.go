package api

import (
	"testing"

	"lastitem/testkit"
)

// A key in UTF-8 is listed as its client wrote it, and no two keys are listed alike.
func TestKeyText(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for key, want := range map[string]string{
		"zé": "zé", "订单-7": "订单-7", `a\b`: `a\b`, "\xe9": `\xe9`, `\xe9`: `\x5cxe9`, "\\\xe9": `\\xe9`, `\\xe9`: `\\x5cxe9`,
		`\x5c`:         `\x5cx5c`,
		"\xc3\xa9\xff": `é\xff`, "\xc3": `\xc3`, "é\\x": `é\x5cx`, "": "", "\ufffd": "\ufffd",
	} {
		got := KeyText([]byte(key))
		testkit.Is(t, got, want, "KeyText(%q)", key)
		if other, ok := seen[got]; ok {
			t.Errorf("KeyText(%q) = KeyText(%q) = %q", key, other, got)
		}
		seen[got] = key
	}
}
