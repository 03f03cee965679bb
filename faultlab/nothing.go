package faultlab

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"lastitem/faultlab/fault"
	"lastitem/internal/api"
)

// CheckCells returns an error that says why no selected cell can be played; nil = at least one can. It needs no server.
func CheckCells(modes []api.Mode, o Options) error {
	modes = slices.DeleteFunc(slices.Clone(modes), func(m api.Mode) bool { return LeftOut(m) != "" && !slices.Contains(o.Modes, m.Name) })
	playable := slices.DeleteFunc(slices.Clone(modes), func(m api.Mode) bool { return LeftOut(m) != "" })
	if len(Cells(playable, Matrix{}, o)) > 0 {
		return nil
	}
	return errors.New("nothing to play: " + whyNot(modes, o))
}

// nothing says why there is no cell to play on the servers of this machine.
func (l *lab) nothing() error {
	if len(l.leftOut) > 0 {
		return fmt.Errorf("faultlab: nothing to play: %s", strings.Join(l.leftOut, "; "))
	}
	return fmt.Errorf("faultlab: nothing to play: %s", whyNot(l.modes, l.o))
}

// manyReasons is how many reasons whyNot lists.
const manyReasons = 6

// whyNot says for each selected mode why none of its cells can be played.
func whyNot(modes []api.Mode, o Options) string {
	var why []string
	for _, m := range modes {
		if selected(o.Modes, m.Name) && !m.Baseline {
			why = append(why, reasons(m, o)...)
		}
	}
	if len(why) > manyReasons {
		why = append(why[:manyReasons], "...")
	}
	return strings.Join(why, "; ")
}

// reasons says why none of a mode's selected cells can be played.
func reasons(m api.Mode, o Options) []string {
	switch {
	case LeftOut(m) != "":
		return []string{m.Name + ": " + LeftOut(m)}
	case !m.Available && m.Why != "":
		return []string{m.Name + ": " + m.Why}
	case !slices.ContainsFunc(m.Stores, func(s api.Store) bool { return selected(o.Stores, s) }):
		return []string{fmt.Sprintf("%s keeps its count in %s, not in %s", m.Name, joined(m.Stores), joined(o.Stores))}
	}
	var why []string
	for _, f := range fault.All() {
		for _, store := range m.Stores {
			if selectedFault(o, f) && selected(o.Stores, store) {
				why = append(why, fmt.Sprintf("%s (%s), %s: %s", m.Name, store, f.Name, whyNoCell(f, m, store)))
			}
		}
	}
	return why
}

// whyNoCell says why a fault is not played on a mode and store.
func whyNoCell(f fault.Fault, m api.Mode, store api.Store) string {
	claims := m.Claims[store]
	for _, earlier := range []api.Hazard{api.Threads, api.Replicas} {
		if c := claims[earlier]; c != "" && c != api.Exact && f.Name != earlier {
			return fmt.Sprintf("%s breaks the mode already (%s)", earlier, c)
		}
	}
	return "cannot happen to this mode"
}

func joined(stores []api.Store) string {
	names := make([]string, len(stores))
	for i, s := range stores {
		names[i] = string(s)
	}
	return strings.Join(names, " or ")
}
