package rig

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/wire"
)

// A command is identified by its kind and its occurrence among those of its kind, never by its number.
func TestPositions(t *testing.T) {
	t.Parallel()
	call := func(pattern string) wire.Call { return wire.Call{Server: "redis", Pattern: pattern} }
	at := func(pattern string, nth int) Position {
		return Position{Server: "redis", Pattern: pattern, Nth: nth, Cut: Command}
	}
	got := positions([]wire.Call{
		{Server: "redis", Pattern: "HELLO", Setup: true}, call("GET"), {Server: "redis", Pattern: "BLPOP", Poll: true}, call("SET"), call("GET"),
	})
	if diff := cmp.Diff([]Position{at("GET", 1), at("SET", 1), at("GET", 2)}, got); diff != "" {
		t.Errorf("positions (-want +got):\n%s", diff)
	}
	// A renewal that came in one run only is no part of the request; a release that was late in one run is.
	runs := [][]Position{
		{at("GET", 1), at("SET", 1), at("DEL", 1)},
		{at("GET", 1), at("PEXPIRE", 1), at("SET", 1), at("DEL", 1)},
		{at("GET", 1), at("SET", 1)},
	}
	want := []Position{at("GET", 1), at("SET", 1), at("DEL", 1)}
	if diff := cmp.Diff(want, common(runs)); diff != "" {
		t.Errorf("what most runs have (-want +got):\n%s", diff)
	}
}
