package judge

import "slices"

// maxRuns is how many runs of units a [coverage] keeps.
const maxRuns = 1 << 14

// coverage counts the orders of each unit, as sorted runs of units. In an exact sale the orders join into one run or a
// few, since they are written in nearly the order of their units. The memory grows with the number of gaps.
type coverage struct {
	runs []span // sorted, disjoint
	left int64  // spans that were not added, since maxRuns was reached
}

// add adds the units of one order. s is the initial stock: no run crosses its end.
func (c *coverage) add(sp span, s int64) {
	if len(c.runs) > maxRuns || sp.first > sp.last {
		c.left++ // or the quantity overflows
		return
	}
	if sp.first <= s && s < sp.last {
		c.insert(span{sp.first, s, 1}, s)
		c.insert(span{s + 1, sp.last, 1}, s)
		return
	}
	c.insert(sp, s)
}

// insert adds a span to the runs. Where it overlaps a run, both are split, and the shared piece counts one order more.
//
//	runs   1---5 x1       8--9 x1
//	span      4-----8
//	runs   1-3 x1, 4-5 x2, 6-7 x1, 8 x2, 9 x1
func (c *coverage) insert(sp span, s int64) {
	from, _ := slices.BinarySearchFunc(c.runs, sp.first, func(r span, at int64) int {
		if r.last < at {
			return -1
		}
		return 1
	})
	if from > 0 && (from == len(c.runs) || c.runs[from].first > sp.last) && joins(c.runs[from-1], sp, s) {
		c.runs[from-1].last = sp.last // the usual case
		if from < len(c.runs) && joins(c.runs[from-1], c.runs[from], s) {
			c.runs[from-1].last = c.runs[from].last
			c.runs = slices.Delete(c.runs, from, from+1)
		}
		return
	}
	to := from
	var pieces []span
	at := sp.first
	for ; to < len(c.runs) && c.runs[to].first <= sp.last; to++ {
		r := c.runs[to]
		if r.first < sp.first {
			pieces = append(pieces, span{r.first, sp.first - 1, r.n})
		}
		if at < r.first {
			pieces = append(pieces, span{at, r.first - 1, 1})
		}
		pieces = append(pieces, span{max(r.first, sp.first), min(r.last, sp.last), r.n + 1})
		if r.last > sp.last {
			pieces = append(pieces, span{sp.last + 1, r.last, r.n})
		}
		at = r.last + 1
	}
	if at <= sp.last {
		pieces = append(pieces, span{at, sp.last, 1})
	}
	if to < len(c.runs) && joins(pieces[len(pieces)-1], c.runs[to], s) {
		pieces[len(pieces)-1].last = c.runs[to].last
		to++
	}
	c.runs = slices.Replace(c.runs, from, to, pieces...)
}

// joins says whether two runs can be merged: both sold once, both within the stock, and adjacent.
func joins(a, b span, s int64) bool {
	return a.n == 1 && b.n == 1 && a.last+1 == b.first && b.last <= s
}

// disputed returns the suspect runs: units of several orders, or beyond the initial stock s.
func (c *coverage) disputed(s int64) []span {
	var found []span
	for _, r := range c.runs {
		if r.n > 1 || r.first > s {
			found = append(found, r)
		}
	}
	return found
}
