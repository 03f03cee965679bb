package faultlab

import (
	"context"
	"slices"
	"strings"

	"lastitem/contract/api"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/rig"
	"lastitem/say/text"
	"lastitem/stack"
)

// cells returns the cells that are selected, can be played here and make a claim.
func (l *lab) cells(o Options) []Cell {
	modes := slices.DeleteFunc(slices.Clone(l.modes), func(m api.Mode) bool { return !m.Available || LeftOut(m) != "" })
	all := Cells(modes, l.matrix, o)
	if o.Witness != nil {
		all = slices.DeleteFunc(all, func(c Cell) bool { return len(l.witnessesOf(c)) == 0 })
	}
	return all
}

// Cells returns the selected cells that can happen. The claim of a cell is the mode's claim or, for a hazard of
// fault.Beyond, what known has ("" = known has no such cell).
func Cells(modes []api.Mode, known Matrix, o Options) []Cell {
	var all []Cell
	for _, m := range modes {
		if m.Baseline || !selected(o.Modes, m.Name) {
			continue
		}
		for _, store := range m.Stores {
			for _, f := range fault.All() {
				if !selected(o.Stores, store) || !selectedFault(o, f) || !happens(f, m, store) {
					continue
				}
				c := Cell{Mode: m.Name, Store: store, Fault: f.Name, Claim: m.Claims[store][f.Name]}
				if !f.Claimed() {
					before, _ := known.Cell(m.Name, store, f.Name)
					c.Claim = before.Found
				}
				all = append(all, c)
			}
		}
	}
	return all
}

// happens says whether a cell can be played. The hazards of fault.Beyond are not played on a mode that two concurrent
// requests break without any fault.
func happens(f fault.Fault, m api.Mode, store api.Store) bool {
	claims := m.Claims[store]
	if f.Claimed() {
		return claims[f.Name] != "" && claims[f.Name] != "–"
	}
	return claims[api.Threads] == api.Exact && claims[api.Replicas] == api.Exact && f.Happens(m, store)
}

// selectedFault says whether a fault is to be played. If no fault is named, those of fault.Ladder are.
func selectedFault(o Options, f fault.Fault) bool {
	if o.Faults == nil {
		return f.Claimed()
	}
	return slices.Contains(o.Faults, f.Name)
}

func selected[T comparable](wanted []T, x T) bool { return wanted == nil || slices.Contains(wanted, x) }

// sample is how many schedules of an exact cell are played if the mode needs a service and Options.All is not set.
const sample = 6

// choose lists the schedules of a cell that are to be played, and counts those that are left out.
func (l *lab) choose(ctx context.Context, g *group, c *Cell) (chosen []Schedule, err error) {
	known, there := l.matrix.Cell(c.Mode, c.Store, c.Fault)
	if l.o.Witness != nil {
		c.committed = known.Witnesses
		return l.witnessesOf(*c), nil
	}
	all, err := l.plan(ctx, g, *c)
	if f, _ := fault.Named(c.Fault); err == nil && l.o.Serve != nil {
		for _, variant := range l.variants(f, c.Mode) {
			if path, _ := l.path(ctx, g, *c, f.About(variant)); c.Untested == (text.Text{}) { // which plan has traced
				c.Untested = untested(f, path)
			}
		}
		if why := l.o.Serve.WhyNoRetry(); f.Name == api.Retry && why != (text.Text{}) {
			*c = c.untestedAs(why)
		}
	}
	m := l.mode(c.Mode)
	switch {
	case err != nil:
		return nil, err
	case l.o.All:
		chosen = all
	default:
		switch {
		case there && len(known.Witnesses) > 0:
			chosen, c.committed = known.witnesses(), known.Witnesses
		case there && hasSession(m):
			chosen, c.Sampled = sampled(all), true
		default:
			chosen = all
		}
	}
	c.Left = len(all) - len(chosen)
	if l.o.For > 0 {
		chosen = slices.Clone(chosen)
		telling(chosen, l.o.Seed)
	}
	for i := range chosen {
		chosen[i] = chosen[i].expiring(l.o.Expiry)
	}
	return chosen, nil
}

// sampled returns a few of the schedules, spread from the first to the last.
func sampled(all []Schedule) []Schedule {
	if len(all) <= sample {
		return all
	}
	chosen := make([]Schedule, sample)
	for i := range chosen {
		chosen[i] = all[i*(len(all)-1)/(sample-1)]
	}
	return chosen
}

// plan lists the schedules of a cell.
func (l *lab) plan(ctx context.Context, g *group, c Cell) ([]Schedule, error) {
	f, _ := fault.Named(c.Fault)
	base := Schedule{Mode: c.Mode, Store: c.Store, Fault: c.Fault}
	var all []Schedule
	for _, variant := range l.variants(f, c.Mode) {
		path, err := l.path(ctx, g, c, f.About(variant))
		if err != nil {
			return nil, err
		}
		base.Variant = variant
		if !f.Rival {
			all = append(all, struck(f, base, path, nil)...)
		}
		if f.Rival || l.o.Pairs && f.Pairs {
			rival, err := l.rival(ctx, g, c, variant, path)
			if err != nil {
				return nil, err
			}
			all = append(all, struck(f, base, path, &rival)...)
		}
	}
	return all, nil
}

// variants are the ways in which a fault strikes a mode, with those in which somebody's service ends an order. A
// purchase that may not be repeated is not.
func (l *lab) variants(f fault.Fault, mode string) []string {
	all := []string{""}
	if f.Variants != nil {
		all = slices.Clone(f.Variants(l.mode(mode)))
	}
	serve := l.o.Serve
	if serve == nil || serve.Cancel == nil {
		return all
	}
	if f.Name == api.Retry && serve.WhyNoRetry() != (text.Text{}) {
		all = nil
	}
	for _, variant := range f.Endings {
		if serve.Ship != nil || !strings.Contains(variant, "shipped") {
			all = append(all, variant)
		}
	}
	return all
}

// struck lists the schedules of one variant: the victim's positions and, unless rival is nil, the rival's with each of
// them.
func struck(f fault.Fault, base Schedule, path rig.Path, rival *rig.Path) []Schedule {
	var all []Schedule
	victims := path.Steps
	if f.Finished {
		victims = path.Steps[path.Finished:]
	}
	for _, at := range victims {
		for _, cut := range f.Cuts {
			s, a := base, at
			a.Cut = cut
			if f.Skip != nil && f.Skip(base.Variant, a) {
				continue
			}
			s.A = &a
			if rival == nil {
				all = append(all, s)
				continue
			}
			for _, b := range rival.Steps[:rival.Finished] {
				pair := s
				pair.B = &b
				all = append(all, pair)
			}
		}
	}
	if f.AtEnd && rival == nil {
		all = append(all, base)
	}
	return all
}

// LeftOut says why a mode is not explored; "" = it is.
func LeftOut(m api.Mode) string {
	if slices.Contains(m.Needs, stack.Kafka) {
		return "a Kafka broker tells its clients its own address, so that they go past the proxies"
	}
	return ""
}

// CheckCells returns an error that says why no selected cell can be played; nil = at least one can. It needs no server.
func CheckCells(modes []api.Mode, o Options) error {
	modes = slices.DeleteFunc(slices.Clone(modes), func(m api.Mode) bool {
		return LeftOut(m) != "" && !slices.Contains(o.Modes, m.Name)
	})
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

// whyNoCell says why a fault is not played on a mode and store. That it cannot happen is what "–" says, or the fault.
func whyNoCell(f fault.Fault, m api.Mode, store api.Store) text.Text {
	claims := m.Claims[store]
	if claims[f.Name] == api.NotApplicable || !f.Claimed() && !f.Happens(m, store) {
		return text.Of("cannot happen to this mode")
	}
	for _, earlier := range fault.Ladder {
		if c := claims[earlier.Name]; earlier.Name != f.Name && c != "" && c != api.Exact && c != api.NotApplicable {
			return text.Of("%s breaks the mode already (%s)").With(earlier.Name, c)
		}
	}
	return text.Of("the mode claims nothing about it")
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

// witnessesOf returns the committed witnesses of a cell that Options.Witness selects.
func (l *lab) witnessesOf(c Cell) []Schedule {
	known, _ := l.matrix.Cell(c.Mode, c.Store, c.Fault)
	var all []Schedule
	for _, s := range known.witnesses() {
		if l.o.Witness(s) {
			all = append(all, s)
		}
	}
	return all
}

// guess returns how many schedules of a cell will probably be played, by the committed matrix; -1 if the matrix does
// not have it.
func (l *lab) guess(c Cell) int {
	if l.o.Witness != nil {
		return len(l.witnessesOf(c))
	}
	m := l.mode(c.Mode)
	known, there := l.matrix.Cell(c.Mode, c.Store, c.Fault)
	switch {
	case !there || l.o.Pairs && (l.o.All || len(known.Witnesses) == 0):
		return -1
	case !l.o.All && len(known.Witnesses) > 0:
		return len(known.witnesses())
	case !l.o.All && hasSession(m):
		return min(sample, known.Tried)
	default:
		return known.Tried
	}
}
