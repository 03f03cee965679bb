package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
	"lastitem/say/text"
	"lastitem/stack"
)

// everyNode is the variant in which all nodes of a Redlock follow one wrong time server.
const everyNode = "every-node"

// nodes are the nodes of a Redlock.
const nodes = "redlock 1,redlock 2,redlock 3,redlock 4,redlock 5"

// clockJump is how far a clock jumps: past every TTL.
const clockJump = time.Hour

// clocked gives a lane lock servers of its own whose clocks can be set.
var clocked = gear.Equipment{Own: stack.Redis + "," + nodes, Clock: true}

// ClockJump sets the wall clock of the lock's Redis forward past the TTL, as happens when a time server corrects a
// clock that was slow. Redis computes the expiry of a key from its wall clock, so the lock expires while its holder
// works.
var ClockJump = Fault{
	Name: "clock-jump",
	Title: text.Of("the wall clock of the Redis that holds the lock, or of one of Redlock's nodes, jumps forward past " +
		"the TTL"),
	Cuts: bothCuts,
	Variants: func(m api.Mode) []string {
		if slices.Contains(m.Needs, stack.Redlock) {
			return []string{allGranted, bareMajority, everyNode}
		}
		return []string{""}
	},
	Skip: func(variant string, at rig.Position) bool {
		return variant == bareMajority && skipUnreachable(variant, at)
	},
	Happens: expiresInRedis,
	Lane:    clocked,
	Strike: func(ctx context.Context, p *Play) error {
		p.Outlive = recovery
		if p.Variant == bareMajority {
			p.Lane.A.Lose(unreachable...)
		}
		return p.upset(ctx, jumped(p, clockJump), func(ctx context.Context) error {
			return p.Lane.Clocks.Jump(ctx, clockJump, clocksOf(p)...)
		})
	},
}

// expiresInRedis says whether a mode has its lock in Redis under a key with a TTL. The modes that the eviction hazards
// leave out have no such key.
func expiresInRedis(m api.Mode, store api.Store) bool {
	return slices.Contains(m.Needs, stack.Redlock) || Eviction.Happens(m, store)
}

// clocksOf returns the servers whose clocks jump.
func clocksOf(p *Play) []string {
	switch {
	case p.Variant == everyNode:
		return strings.Split(nodes, ",")
	case slices.Contains(p.Mode.Needs, stack.Redlock):
		return []string{forgetful}
	default:
		return []string{stack.Redis}
	}
}

// jumped is the sentence about the jump in a story.
func jumped(p *Play, by time.Duration) string {
	return fmt.Sprintf("the clock of %s jumps by %+.0f min", strings.Join(clocksOf(p), ", "), by.Minutes())
}
