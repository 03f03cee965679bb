package report

import (
	"io"
	"os"
	"testing"

	"lastitem/testkit"
)

// Whatever a foreign program wrote, a terminal gets no sequence but the colours of our reports and the rewriting of our
// progress lines.
func TestCleanLetsNoForeignSequencePass(t *testing.T) {
	t.Parallel()
	const foreign = "\r\x1b[Kverdict: EXACT \x1b]0;pwned\a \u009b2J \x9b2J \x1b[8mhid \u202eright\x7f\x00\n"
	const shown = `\u000d\u001b[Kverdict: EXACT \u001b]0;pwned\u0007 \u009b2J \x9b2J \u001b[8mhid ` +
		`\u202eright\u007f\u0000` + "\n"
	for _, tt := range []struct {
		name     string
		terminal bool
		writes   []string
		want     string
	}{
		{"foreign, on a terminal", true, []string{foreign}, shown},
		{"foreign, to a file or a pipe", false, []string{foreign}, shown},
		{"colours are for terminals", false, []string{"\x1b[31mBROKEN\x1b[0m"}, `\u001b[31mBROKEN\u001b[0m`},
		{"colours", true, []string{"\x1b[31mBROKEN\x1b[0m\t▁▂\n"}, "\x1b[31mBROKEN\x1b[0m\t▁▂\n"},
		{"split anywhere", true, []string{"\xe6", "\x97", "\xa0锁", "\xc2", "\x9b", "\x1b", "c"}, "无锁" + `\u009b\u001bc`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe()
			testkit.Must(t, err)
			c := Clean(w)
			c.terminal = tt.terminal
			for _, s := range tt.writes {
				if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
					t.Errorf("Write(%q) = %d, %v, want all of it", s, n, err)
				}
			}
			Rewrite(struct{ *Cleaner }{c}, foreign) // there may be more writers around it
			_ = w.Close()
			got, err := io.ReadAll(r)
			if want := tt.want + "\r\x1b[K" + shown; string(got) != want || err != nil {
				t.Errorf("shown: %q, %v\nwant %q", got, err, want)
			}
		})
	}
}
