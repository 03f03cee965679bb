package main

import "runtime/debug"

// commit is set by the linker where the build knows it ('make build').
var commit string

// version is the commit that the binary was built from; "+dirty" where the tree had changes, "devel" where unknown.
func version() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	v, dirty := "devel", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+dirty"
			}
		}
	}
	return v + dirty
}
