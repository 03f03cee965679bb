package faultlab

import (
	"time"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/say/text"
	"lastitem/target"
)

// Options says which cells to explore, and on which servers.
type Options struct {
	// Modes, Stores and Faults select cells; nil = all modes, all stores, and the faults of fault.Ladder.
	Modes  []string
	Stores []api.Store
	Faults []api.Hazard
	// All plays every schedule. Otherwise the lab plays the committed witnesses of a cell that is known to be broken, all
	// schedules of an exact cell that uses only Redis and SQL, and a sample of the schedules of an exact cell that needs
	// another service.
	All bool
	// Witness selects committed witnesses: they are played, and nothing else. nil = the lab chooses what to play.
	Witness func(Schedule) bool
	// Pairs adds the schedules with two preemptions: the victim and the rival are both held, each at each of its commands.
	Pairs bool
	// Expiry is how the locks of a stopped or dead holder expire in the faults that can force it, pause and crash; "" =
	// Awaited.
	Expiry Expiry
	// For is for how long schedules are begun, the most telling first, in an order that Seed decides; 0 = until all have
	// been played.
	For  time.Duration
	Seed uint64
	// Learn accepts every finding about the hazards of fault.Beyond as the expected one; it is set to update matrix.json.
	Learn bool
	// Extras are the services that are started beside Redis and SQL, stack.Etcd and the like; a mode that needs
	// another is left out.
	Extras []string
	// Stories keeps every schedule that was played, with its story.
	Stories bool
	// Tell keeps the stories of the witnesses of broken cells, for Result.WritePage.
	Tell bool
	// Lanes is how many schedules are played in parallel; 0 = DefaultLanes.
	Lanes int
	// TTL is that of the locks in faults whose leases must expire; 0 = DefaultTTL. In other faults it is LongTTL.
	TTL time.Duration
	// Serve is a foreign service to explore in place of the shop's modes; nil = the shop. It makes no claims: the lab
	// reports every finding.
	Serve *target.Foreign
	// Binary is the path of the shop's program; "" = the running program.
	Binary string
	// Log receives a line for everything that is started, Progress every cell when it is done, and Tally how far the
	// exploration is, after each schedule; Tally is called by one goroutine at a time. nil = it is not called.
	Log      func(format string, args ...any)
	Progress func(Cell)
	Tally    func(Tally)
}

// The defaults.
const (
	DefaultLanes = 8
	DefaultTTL   = 600 * time.Millisecond
	LongTTL      = 30 * time.Second
)

// Result is the result of an exploration.
type Result struct {
	Cells []Cell `json:"cells"`
	// Worst is the schedule that broke most, with its story; nil if the shop was explored in more than one mode or fault.
	Worst *Played `json:"worst,omitempty"`
	// Played has the schedules with their stories, if Options.Stories is set.
	Played []Played `json:"played,omitempty"`
	// Unclaimed has the schedules that showed a letter which the mode does not claim, with their stories, if these stand
	// nowhere else here.
	Unclaimed []Played `json:"unclaimed,omitempty"`
	// Told has the witnesses of the broken cells with their stories, if Options.Tell is set.
	Told []Played `json:"-"`
	// Servers are the versions that the lab ran on, by name: "redis-server 7.0.15". TTL is that of the locks in faults
	// where leases expire.
	Servers map[string]string `json:"servers"`
	TTL     time.Duration     `json:"ttl_ns"`
	// Lanes is how many schedules were played in parallel, 0 = unknown.
	Lanes int `json:"lanes,omitempty"`
	// Serve is the foreign service that was explored, nil = the shop; Leases are the locks seen in its Redis.
	Serve  *target.Foreign `json:"serve,omitempty"`
	Leases []rig.Lease     `json:"leases,omitempty"`
	// NotPlayed is everything that was not played on a foreign service.
	NotPlayed []Gap `json:"not_played,omitempty"`
	// LeftOut has the selected faults that cannot be injected on this machine, each with the reason: "clock-jump: cc not
	// found".
	LeftOut []string `json:"left_out,omitempty"`
	// Interrupted says that the exploration was stopped: Cells has only the cells that were complete by then.
	Interrupted bool `json:"interrupted,omitempty"`
	// Order has every cell that the modes claim, selected or not, in the order of the modes.
	Order []Cell `json:"-"`
	// Schedules counts the schedules that were played, Judged those of them that could be judged.
	Schedules int `json:"schedules"`
	Judged    int `json:"judged"`
	// Again counts repetitions of schedules that had proved nothing: the machine stood still while a lock could expire,
	// the victim was refused before it reached its position, a witness did not show its letter, or the lab failed.
	Again int64         `json:"again,omitempty"`
	Took  time.Duration `json:"took_ns"`
	Cost  Cost          `json:"cost"`
}

// Gap is something that was not played on a foreign service: faults, or one of their variants or kinds of positions.
type Gap struct {
	Faults []api.Hazard `json:"faults,omitempty"`
	What   text.Text    `json:"what,omitzero"` // the variant or the positions; zero = nothing of these faults was played
	Why    text.Text    `json:"why"`
}

// complete fills in the defaults.
func (o *Options) complete() {
	if o.Lanes == 0 {
		o.Lanes = DefaultLanes
	}
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
}
