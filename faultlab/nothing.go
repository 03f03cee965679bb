package faultlab

import (
	"slices"
	"strings"

	"lastitem/faultlab/fault"
	"lastitem/internal/api"
	"lastitem/internal/text"
)

// CheckCells returns an error that says why no selected cell can be played; nil = at least one can. It needs no server.
func CheckCells(modes []api.Mode, o Options) error {
	modes = slices.DeleteFunc(slices.Clone(modes), func(m api.Mode) bool { return LeftOut(m) != "" && !slices.Contains(o.Modes, m.Name) })
	playable := slices.DeleteFunc(slices.Clone(modes), func(m api.Mode) bool { return LeftOut(m) != "" })
	if len(Cells(playable, Matrix{}, o)) > 0 {
		return nil
	}
	return text.Of("nothing to play: %s").Errorf(whyNot(modes, o))
}

// nothing says why there is no cell to play on the servers of this machine.
func (l *lab) nothing() error {
	if len(l.leftOut) > 0 {
		return text.Of("faultlab: nothing to play: %s").Errorf(strings.Join(l.leftOut, "; "))
	}
	return text.Of("faultlab: nothing to play: %s").Errorf(whyNot(l.modes, l.o))
}

// manyReasons is how many reasons whyNot lists.
const manyReasons = 6

// whyNot says for each selected mode why none of its cells can be played.
func whyNot(modes []api.Mode, o Options) text.Text {
	var why []text.Text
	for _, m := range modes {
		if selected(o.Modes, m.Name) && !m.Baseline {
			why = append(why, reasons(m, o)...)
		}
	}
	if len(why) > manyReasons {
		why = append(why[:manyReasons], text.Of("..."))
	}
	var all text.Text
	for i, w := range why {
		if i > 0 {
			all.En, all.Zh = all.En+"; ", all.Zh+text.Of("; ").Zh
		}
		all.En, all.Zh = all.En+w.En, all.Zh+w.Zh
	}
	return all
}

// reasons says why none of a mode's selected cells can be played.
func reasons(m api.Mode, o Options) []text.Text {
	switch {
	case LeftOut(m) != "":
		return []text.Text{text.Of("%s: %s").With(m.Name, LeftOut(m))}
	case !m.Available && m.Why != "":
		return []text.Text{text.Of("%s: %s").With(m.Name, m.Why)}
	case !slices.ContainsFunc(m.Stores, func(s api.Store) bool { return selected(o.Stores, s) }):
		return []text.Text{text.Of("%s keeps its count in %s, not in %s").With(m.Name, either(m.Stores), either(o.Stores))}
	}
	var why []text.Text
	for _, f := range fault.All() {
		for _, store := range m.Stores {
			if selectedFault(o, f) && selected(o.Stores, store) {
				none := whyNoCell(f, m, store)
				why = append(why, text.Of("%s (%s), %s: %s").With(m.Name, store, f.Name, none))
			}
		}
	}
	return why
}

// whyNoCell says why a fault is not played on a mode and store.
func whyNoCell(f fault.Fault, m api.Mode, store api.Store) text.Text {
	claims := m.Claims[store]
	for _, earlier := range []api.Hazard{api.Threads, api.Replicas} {
		if c := claims[earlier]; c != "" && c != api.Exact && f.Name != earlier {
			return text.Of("%s breaks the mode already (%s)").With(earlier, c)
		}
	}
	return text.Of("cannot happen to this mode")
}

func joined(stores []api.Store, or string) string {
	names := make([]string, len(stores))
	for i, s := range stores {
		names[i] = string(s)
	}
	return strings.Join(names, or)
}

// either lists stores as alternatives.
func either(stores []api.Store) text.Text {
	return text.Text{En: joined(stores, " or "), Zh: joined(stores, text.Of(" or ").Zh)}
}
