package faultlab

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
)

// This file fits an exploration into Options.For.

// telling puts the schedules first that are most likely to show something: those at a command that writes, and those at
// the end of a request. Within both the seed decides.
func telling(all []Schedule, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortStableFunc(all, func(a, b Schedule) int { return b.tells() - a.tells() })
}

// The commands that only read or begin something in Redis, and those of SQL that write or end something.
var (
	redisReads = []string{"GET", "MGET", "HGET", "HMGET", "HGETALL", "HEXISTS", "EXISTS", "TTL", "PTTL", "LRANGE", "LLEN",
		"SMEMBERS", "SISMEMBER", "ZRANGE", "ZSCORE", "WATCH", "MULTI", "SUBSCRIBE", "SCRIPT", "PING", "TIME"}
	sqlWrites = []string{"INSERT", "UPDATE", "DELETE", "REPLACE", "COMMIT", "CALL", "WITH", "LOAD", "DO"}
)

// tells is how much a schedule is likely to tell: 1 or 0.
func (s Schedule) tells() int {
	if s.A == nil {
		return 1
	}
	verb, _, _ := strings.Cut(strings.ToUpper(s.A.Pattern), " ")
	switch s.A.Server {
	case stack.Redis:
		if slices.Contains(redisReads, verb) {
			return 0
		}
	case gear.Database:
		if !slices.Contains(sqlWrites, verb) {
			return 0
		}
	}
	return 1
}

// allot gives a group its share of Options.For from now on; atOnce groups are explored at the same time.
func (l *lab) allot(g *group, atOnce int) {
	groups := 0
	for _, other := range l.groups {
		if len(other.cells) > 0 {
			groups++
		}
	}
	g.ends = time.Now().Add(l.o.For * time.Duration(atOnce) / time.Duration(max(atOnce, groups)))
}

// begin gives the i-th cell of a group an equal share of what is left. Its trace, which has just taken that long, does
// not count: a service of many commands would have no time left for schedules.
func (g *group) begin(i int, trace time.Duration) {
	g.ends = g.ends.Add(trace)
	g.until = time.Now().Add(time.Until(g.ends) / time.Duration(len(g.cells)-i))
}

// over says that no more schedules of the cell begin.
func (l *lab) over(g *group) bool { return l.o.For > 0 && time.Now().After(g.until) }

// cut notes that some schedules of a cell did not fit.
func (l *lab) cut(c Cell, left int) Cell {
	why := text.Of("%d [schedule|schedules] did not fit into --for %v").With(left, l.o.For)
	switch {
	case left == 0:
	case c.Claim != Unclaimed:
		c.Undecided = append(c.Undecided, why.En)
	default:
		c = c.untestedAs(why)
	}
	return c
}
