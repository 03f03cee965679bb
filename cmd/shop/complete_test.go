package main

import (
	"slices"
	"strings"
	"testing"
)

// The shell completes the values of flags and arguments. In a comma-separated list it offers only the values that are not there yet.
func TestCompletions(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][]string{
		"modes ":                          {"noop", "lua-lock"},
		"trace ":                          {"lua-lock"},
		"trace lua-lock --store ":         {"redis", "sql", "etcd"},
		"demo --mode ":                    {"lua-lock"},
		"demo --backend ":                 {"auto", "embedded", "local"},
		"loadtest --mode lua-lock,":       {"lua-lock,fair"},
		"loadtest --plan ":                {"jmeter", "five"},
		"loadtest --engine ":              {"raw", "resty"},
		"lab --mode lua-lock --fault pa":  {"pause"},
		"audit --lang ":                   {"en", "zh"},
		"loadtest --mode lua-lock,fa":     {"lua-lock,fair"},
		"lab --fault pause,cra":           {"pause,crash"},
		"up --mode ":                      {},
		"loadtest --mode lua-lock,lua-lo": {},
	} {
		words := strings.Split(args, " ")
		_, out, _ := commandLine(t.Context(), newRoot("en"), append([]string{"__complete"}, words...)...)
		lines := strings.Split(out, "\n")
		for _, w := range want {
			if !slices.Contains(lines, w) {
				t.Errorf("shop %s<TAB>: %q, want %q among them", args, lines, w)
			}
		}
		if len(want) == 0 && (slices.Contains(lines, "lua-lock") || slices.Contains(lines, "lua-lock,lua-lock")) {
			t.Errorf("shop %s<TAB>: %q, want no mode, or none twice", args, lines)
		}
	}
}

// Every command that users see stands in a section of the help.
func TestCommandsAreGrouped(t *testing.T) {
	t.Parallel()
	for _, cmd := range newRoot("en").Commands() {
		if !cmd.Hidden && cmd.GroupID == "" {
			t.Errorf("shop %s is in no group", cmd.Name())
		}
	}
}
