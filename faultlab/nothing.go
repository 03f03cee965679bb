package faultlab

import (
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
	return api.Text{En: "nothing to play: %s", Zh: "没有可跑的：%s"}.Errorf(whyNot(modes, o))
}

// nothing says why there is no cell to play on the servers of this machine.
func (l *lab) nothing() error {
	if len(l.leftOut) > 0 {
		return api.Text{En: "faultlab: nothing to play: %s", Zh: "faultlab: 没有可跑的：%s"}.Errorf(strings.Join(l.leftOut, "; "))
	}
	return api.Text{En: "faultlab: nothing to play: %s", Zh: "faultlab: 没有可跑的：%s"}.Errorf(whyNot(l.modes, l.o))
}

// manyReasons is how many reasons whyNot lists.
const manyReasons = 6

// whyNot says for each selected mode why none of its cells can be played.
func whyNot(modes []api.Mode, o Options) api.Text {
	var why []api.Text
	for _, m := range modes {
		if selected(o.Modes, m.Name) && !m.Baseline {
			why = append(why, reasons(m, o)...)
		}
	}
	if len(why) > manyReasons {
		why = append(why[:manyReasons], api.Text{En: "...", Zh: "……"})
	}
	var all api.Text
	for i, w := range why {
		if i > 0 {
			all.En, all.Zh = all.En+"; ", all.Zh+"；"
		}
		all.En, all.Zh = all.En+w.En, all.Zh+w.Zh
	}
	return all
}

// reasons says why none of a mode's selected cells can be played.
func reasons(m api.Mode, o Options) []api.Text {
	switch {
	case LeftOut(m) != "":
		return []api.Text{{En: m.Name + ": " + LeftOut(m), Zh: m.Name + "：" + LeftOut(m)}}
	case !m.Available && m.Why != "":
		return []api.Text{{En: m.Name + ": " + m.Why, Zh: m.Name + "：" + m.Why}}
	case !slices.ContainsFunc(m.Stores, func(s api.Store) bool { return selected(o.Stores, s) }):
		return []api.Text{{
			En: fmt.Sprintf("%s keeps its count in %s, not in %s", m.Name, joined(m.Stores, " or "), joined(o.Stores, " or ")),
			Zh: fmt.Sprintf("%s 的库存放在 %s，不在 %s", m.Name, joined(m.Stores, " 或 "), joined(o.Stores, " 或 ")),
		}}
	}
	var why []api.Text
	for _, f := range fault.All() {
		for _, store := range m.Stores {
			if selectedFault(o, f) && selected(o.Stores, store) {
				none := whyNoCell(f, m, store)
				why = append(why, api.Text{
					En: fmt.Sprintf("%s (%s), %s: %s", m.Name, store, f.Name, none.En), Zh: fmt.Sprintf("%s（%s），%s：%s", m.Name, store, f.Name, none.Zh),
				})
			}
		}
	}
	return why
}

// whyNoCell says why a fault is not played on a mode and store.
func whyNoCell(f fault.Fault, m api.Mode, store api.Store) api.Text {
	claims := m.Claims[store]
	for _, earlier := range []api.Hazard{api.Threads, api.Replicas} {
		if c := claims[earlier]; c != "" && c != api.Exact && f.Name != earlier {
			return api.Text{En: fmt.Sprintf("%s breaks the mode already (%s)", earlier, c), Zh: fmt.Sprintf("%s 已经让它出错（%s）", earlier, c)}
		}
	}
	return api.Text{En: "cannot happen to this mode", Zh: "对这个模式不会发生"}
}

func joined(stores []api.Store, or string) string {
	names := make([]string, len(stores))
	for i, s := range stores {
		names[i] = string(s)
	}
	return strings.Join(names, or)
}
