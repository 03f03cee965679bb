package stepper

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lastitem/contract/api"
	"lastitem/faultlab/rig"
	"lastitem/faultlab/rig/gear"
)

// State is the state to which a schedule has led.
type State struct {
	Lesson string `json:"lesson"`
	Moves  string `json:"moves"`
	// Cut says that a part of the schedule was left out: moves that were not possible, letters that are no moves, or too
	// many moves.
	Cut     bool     `json:"cut,omitempty"`
	Clients []Client `json:"clients"`
	Start   Stores   `json:"start"`
	Steps   []Step   `json:"steps"`
	// Orders and Stock are the sums of the ledger, in units.
	Orders int   `json:"orders"`
	Stock  int64 `json:"stock"`
	// Won is the number of moves after which the aim was reached; -1 = it was not.
	Won int `json:"won"`
}

// Client is one of the two clients.
type Client struct {
	Name    string   `json:"name"`
	Phase   Phase    `json:"phase"`
	Stopped bool     `json:"stopped,omitempty"`
	Asked   int      `json:"asked"`
	Command string   `json:"command,omitempty"` // the command that is held, or was executed
	Answer  string   `json:"answer,omitempty"`  // the answer to the client's request
	Can     []string `json:"can"`
}

// Step is a move, with the contents of the stores after it.
type Step struct {
	Move    string `json:"move"`
	Client  string `json:"client,omitempty"`
	Command string `json:"command,omitempty"`
	// Said is the server's answer to the command.
	Said  string `json:"said,omitempty"`
	Phase Phase  `json:"phase,omitempty"`
	// Answer is the answer to the client's request, if it came with this move.
	Answer string `json:"answer,omitempty"`
	// Deleted says that the client has deleted the other client's lock; Renewed that a lock did not expire because its
	// holder renewed it.
	Deleted bool   `json:"deleted,omitempty"`
	Renewed bool   `json:"renewed,omitempty"`
	Stores  Stores `json:"stores"`
}

// Stores has the contents of Redis and of the database for the product.
type Stores struct {
	Redis []gear.Key   `json:"redis"`
	SQL   []gear.Table `json:"sql"`
}

// state returns the state of the play.
func (p *play) state() *State {
	s := &State{
		Lesson: p.lesson.Name, Moves: strings.Join(p.moves(), ""), Start: p.start, Steps: p.steps, Orders: len(p.orders),
		Stock: p.stock, Won: p.won,
	}
	if s.Steps == nil {
		s.Steps = []Step{}
	}
	for _, c := range p.clients {
		one := Client{Name: c.name, Phase: c.phase, Stopped: c.actor.Stopped(), Asked: c.asked, Answer: c.answer(),
			Can: c.can()}
		if c.at != nil {
			one.Command = c.command()
		}
		s.Clients = append(s.Clients, one)
	}
	return s
}

// command is the command that is held, or was executed, with the server that answers it.
func (c *client) command() string {
	text := short(c.at.Text())
	if c.split != nil && c.at.Call().Plain {
		return "replica" + strings.TrimPrefix(text, gear.Database)
	}
	return text
}

// answer returns the answer to a client's request, "ok" or "refused sold_out"; "" = the client still waits. About a
// reservation it is what was asked for, as "cancel", and not "ok".
func (c *client) answer() string {
	if c.phase != Answered {
		return ""
	}
	if c.request.Made().ID != "" { // the answer is a good one about a reservation
		return string(c.wants)
	}
	op := c.request.Op()
	return strings.TrimSpace(string(op.Outcome) + " " + string(op.Code))
}

// look reads the stores of a lesson: Redis, which has the locks, and the database, and its replica, if it has the
// stock.
func (p *play) look(ctx context.Context) (s Stores, err error) {
	s.SQL = []gear.Table{}
	lane, l := p.lane, p.lesson
	ticketed := l.equipment != (gear.Equipment{})
	if l.Store == api.SQL {
		if s.SQL, err = lane.Tables(ctx); err != nil {
			return s, err
		}
	}
	if p.replica != nil {
		table, err := p.replica.Table(ctx)
		if err != nil {
			return s, err
		}
		s.SQL = slices.Insert(s.SQL, 1, table)
	}
	if s.Redis, err = lane.Keys(ctx); err != nil {
		return s, err
	}
	s.Redis = slices.DeleteFunc(s.Redis, func(k gear.Key) bool {
		return strings.HasPrefix(k.Name, "initial:") || strings.HasPrefix(k.Name, "adjusts:") || ruleless(k) ||
			l.Store == api.SQL && !ticketed && strings.HasPrefix(k.Name, "stock:") ||
			ticketed && strings.HasPrefix(k.Name, "rules:") || internal.MatchString(k.Name)
	})
	for _, k := range s.Redis {
		for i, v := range k.Values {
			k.Values[i] = short(v)
		}
	}
	for _, t := range s.SQL {
		for _, row := range t.Rows {
			for i, v := range row {
				row[i] = short(v)
			}
		}
	}
	return s, nil
}

// internal are the keys of tickets that a reader need not see.
var internal = regexp.MustCompile(`^(answers|answers-old|tries|key):|ticketing`)

// ruleless says that the rules of a product only tell in which runs it is.
func ruleless(k gear.Key) bool {
	for i := 0; i < len(k.Values); i += 2 {
		if field := k.Values[i]; field != "run" && field != "book" {
			return false
		}
	}
	return strings.HasPrefix(k.Name, "rules:")
}

// held returns how many reservations are held.
func (s Stores) held() (n int) {
	for _, t := range s.SQL {
		for _, row := range t.Rows {
			if t.Name == "reservation" && row[1] == "held" {
				n++
			}
		}
	}
	return n
}

// values returns the keys in Redis with their values, without TTLs.
func (s Stores) values() map[string]string {
	all := map[string]string{}
	for _, k := range s.Redis {
		all[k.Name] = strings.Join(k.Values, "\n")
	}
	return all
}

// said returns the answer of a server as text. For the begin and the end of a transaction it leaves out the number of
// changed rows.
func said(p *rig.Passage) string {
	text := short(p.Said())
	if text == "0 rows" && !strings.Contains(p.Text(), "UPDATE") {
		return "OK"
	}
	return text
}

var (
	uuid      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{6}([0-9a-f]{6})`)
	script    = regexp.MustCompile(`EVALSHA ["']([^:;"]*?)[:;"'](?: .*["'])?(?: |$)`)
	inserted  = regexp.MustCompile(`(INSERT (?:IGNORE )?INTO \w+) \([^()]*\)`)
	holdRead  = regexp.MustCompile(`SELECT id, .* FROM reservation WHERE`)
	endRead   = regexp.MustCompile(`SELECT id, .* FROM received WHERE`)
	holdItems = regexp.MustCompile(`SELECT i\..* FROM reservation_item .* WHERE`)
	labKey    = regexp.MustCompile(`lab-\d+-\d+-(\d+)`) // see rig.Scene.NewKey
	orderJSON = regexp.MustCompile(`\{"id":"[^{}]*\}`)
)

// maxText is the greatest length of the text of a command or a value.
const maxText = 400

// short returns a command or a value in readable form: of an order and of a read of a reservation the essentials, of an
// id the last digits, and nothing about the lane.
func short(text string) string {
	text = orderJSON.ReplaceAllStringFunc(text, func(found string) string {
		var order struct {
			ID        string `json:"id"`
			Remaining *int64 `json:"remaining"`
			Replica   string `json:"replica"`
		}
		if json.Unmarshal([]byte(found), &order) != nil {
			return found
		}
		left := ""
		if order.Remaining != nil {
			left = fmt.Sprintf(", remaining %d", *order.Remaining)
		}
		return fmt.Sprintf("{order %s by %s%s}", order.ID, order.Replica, left)
	})
	text = inserted.ReplaceAllString(uuid.ReplaceAllString(text, "…$1"), "$1 (…)")
	text = holdRead.ReplaceAllString(text, "SELECT state, expires_us, … FROM reservation WHERE")
	text = endRead.ReplaceAllString(text, "SELECT outcome, … FROM received WHERE")
	text = holdItems.ReplaceAllString(text, "SELECT … FROM reservation_item … WHERE")
	text = labKey.ReplaceAllString(text, "key-$1")
	text = script.ReplaceAllString(text, "EVALSHA '$1' ")
	text = strings.NewReplacer("lane0:", "", "lane#:", "", "{#}", "{1001}", "limited:0:", "",
		"_binary'", "'").Replace(text)
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText]) + "…"
	}
	return text
}
