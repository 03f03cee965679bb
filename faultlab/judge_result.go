package faultlab

import (
	"fmt"
	"slices"
	"strings"

	"lastitem/contract/api"
)

// Wrong describes each cell with mistakes in one line: which it is, and what is not as it must be.
func (r *Result) Wrong() []string { return r.named(func(c Cell) []string { return c.Wrong }) }

// Undecided has a line for each cell of which some schedules tell nothing, because a server did not answer in time.
func (r *Result) Undecided() []string { return r.named(func(c Cell) []string { return c.Undecided }) }

func (r *Result) named(of func(Cell) []string) []string {
	var all []string
	for _, c := range r.Cells {
		if said := of(c); len(said) > 0 {
			all = append(all, fmt.Sprintf("%s %s %s: %s", c.Mode, c.Store, c.Fault, strings.Join(said, "; ")))
		}
	}
	return all
}

// Broken counts the broken cells.
func (r *Result) Broken() int {
	return len(slices.DeleteFunc(slices.Clone(r.Cells), func(c Cell) bool { return !c.Broken() }))
}

// Broken says whether some letter was found.
func (c Cell) Broken() bool {
	return !slices.Contains([]api.Outcomes{"", api.Exact, Untested, api.NotApplicable}, c.Found)
}

// Untested returns the faults that were not played, or not at every position, except those of allowed.
func (r *Result) Untested(allowed ...string) []string {
	return slices.DeleteFunc(r.Faults(Untested), func(name string) bool { return slices.Contains(allowed, name) })
}

// Faults returns the faults of which this was found.
func (r *Result) Faults(found api.Outcomes) (names []string) {
	for _, c := range r.Cells {
		if c.Found == found {
			names = append(names, string(c.Fault))
		}
	}
	return names
}

// Proved says whether nothing broke in what was played, and every schedule proved something.
func (r *Result) Proved() bool {
	return !slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Found == "" || c.Broken() || len(c.Wrong) > 0 })
}
