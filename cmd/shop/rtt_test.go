package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"lastitem/loadtest"
	"lastitem/loadtest/client"
)

// --rtt takes effect: the three commands of unsafe take at least three round trips, the claims still hold, and the JSON has the RTT.
func TestRTT(t *testing.T) {
	t.Parallel()
	shop := program(t)
	const rtt = 10 * time.Millisecond
	for name, argv := range map[string][]string{
		"demo":     {"demo", "--backend", "embedded", "-o", "json"},
		"loadtest": {"loadtest", "-o", "json", "--insist", "4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), shop, append(argv, "--rtt", rtt.String(), "--replicas", "2", "--mode", "unsafe,redis-lua",
				"--stock", "40", "--vus", "8")...)
			cmd.Env = []string{"PATH=/nonexistent", "TMPDIR=" + t.TempDir()} // embedded servers, for loadtest too
			var said bytes.Buffer
			cmd.Stderr = &said
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s%s", err, out, said.String())
			}
			var c loadtest.Comparison
			if err := json.Unmarshal(out, &c); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if c.Environment.RTT != rtt || len(c.Results) < 2 {
				t.Errorf("rtt %v and %d results, want %v and 2 or more", c.Environment.RTT, len(c.Results), rtt)
			}
			for _, part := range []string{"rtt: 10ms from each replica to redis", "; none to sql (SQLite is a file)"} {
				if !strings.Contains(said.String(), part) {
					t.Errorf("stderr has no %q:\n%s", part, said.String())
				}
			}
			least := map[string]time.Duration{"unsafe": 3 * rtt, "redis-lua": rtt} // three commands, one
			for _, r := range c.Results {
				if fastest := r.Latency[client.Accepted].Min; fastest < least[r.Mode] {
					t.Errorf("%s: the fastest deduction took %v, want %v or more", r.Mode, fastest, least[r.Mode])
				}
			}
		})
	}
}

func TestRTTUsage(t *testing.T) {
	tests := []struct {
		make func(lang string) *cobra.Command
		args []string
		want string
	}{
		{newDemo, []string{"--rtt", "0"}, "--rtt 0s: want more than 0, and at most 1s"},
		{newDemo, []string{"--rtt", "-1ms"}, "--rtt -1ms: want more than 0"},
		{newUp, []string{"--rtt", "2s"}, "--rtt 2s: want more than 0, and at most 1s"},
		{newUp, []string{"--rtt", "1"}, "a duration with its unit"},
		{newDemo, []string{"--rtt", "1ms", "--url", "http://localhost:1"}, "leave out --url, whose network has a round trip of its own"},
		{newDemo, []string{"--rtt", "1ms", "--sql", "sqlite:/nonexistent"}, "leave out --sql"},
		{newUp, []string{"--rtt", "1ms", "--redis", "redis://localhost:1"}, "leave out --redis"},
		{newLoadtest, []string{"--rtt", "1ms", "--mode", "unsafe", "--url", "http://localhost:1"}, "leave out --url"},
		{newLoadtest, []string{"--rtt", "1ms", "--request", "POST /buy"}, "leave out --request"},
		{newLoadtest, []string{"--rtt", "1ms", "--mode", "zz*"}, `unknown mode "zz*"`},
		{newLoadtest, []string{"--rtt", "1ms", "--mode", "unsafe", "--replicas", "1000"}, "each is a process"},
	}
	for _, tt := range tests {
		wantRefused(t, tt.make("en"), tt.want, tt.args...)
	}
}
