package stepper

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"lastitem/stack"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// opened returns a stepper on the shop of this module.
func opened(t *testing.T) *Stepper {
	t.Helper()
	testenv.Installed(t, stack.Redis, stack.MySQL)
	s := New(Options{Binary: testenv.Shop(t)})
	testkit.Closes(t, s)
	return s
}

// played plays a schedule.
func played(t *testing.T, s *Stepper, lesson, moves string) *State {
	t.Helper()
	state, err := s.Play(t.Context(), lesson, moves)
	testkit.Mustf(t, err, "%s %q", lesson, moves)
	return state
}

func TestStepper(t *testing.T) {
	t.Parallel()
	s := opened(t)
	t.Run("ways", func(t *testing.T) { testWays(t, s) })
	t.Run("steps", func(t *testing.T) { testSteps(t, s) })
	t.Run("undo", func(t *testing.T) { testUndo(t, s) })
	t.Run("refused", func(t *testing.T) { testRefused(t, s) })
	t.Run("replica", func(t *testing.T) { testReplica(t, s) })
	t.Run("thought", func(t *testing.T) { testThought(t, s) })
	t.Run("expire", func(t *testing.T) { testExpire(t, s) })
	t.Run("impossible", func(t *testing.T) { testImpossible(t, s) })
	if _, err := s.Play(t.Context(), "nothing", ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unknown lesson: %v, want %v", err, fs.ErrNotExist)
	}
	t.Run("idle", func(t *testing.T) { testIdle(t, s) })
}

// The three lessons that cannot be won are not won by any harm at any command, nor by chance.
func TestNoWay(t *testing.T) {
	testenv.Slow(t, "some hundred schedules")
	t.Parallel()
	s := opened(t)
	for _, l := range lessons {
		if l.Way == "" {
			t.Run(l.Name, func(t *testing.T) { testNoWay(t, s, l.Name) })
		}
	}
}

// Each lesson, except the three that cannot be won, is won by its Way, and not by a shorter part of it.
func testWays(t *testing.T, s *Stepper) {
	without := 0
	for _, l := range lessons {
		if l.Way == "" {
			without++
			continue
		}
		t.Run(l.Name, func(t *testing.T) {
			end := played(t, s, l.Name, l.Way)
			// on a busy machine a client may give up a command that waits for its move
			for try := 1; try < 5 && end.Moves != l.Way; try++ {
				played(t, s, l.Name, "")
				end = played(t, s, l.Name, l.Way)
			}
			for _, step := range end.Steps {
				t.Logf("%-2s %s = %s: %s %s", step.Move, step.Command, step.Said, step.Phase, step.Answer)
			}
			if end.Cut || end.Moves != l.Way || end.Won != len(end.Steps) {
				t.Errorf("%s leads to %q, won after %d of %d moves, want all of them\n%+v", l.Way, end.Moves, end.Won,
					len(end.Steps), end.Clients)
			}
		})
	}
	if len(lessons) != 16 || without != 3 {
		t.Errorf("%d lessons, %d of which cannot be won; want 16 and 3", len(lessons), without)
	}
}

// The answers to the clients, and the contents of the stores after each step, are the effects of the commands.
func testSteps(t *testing.T, s *Stepper) {
	end := played(t, s, "sell-twice", "abaabb")
	var said, stock []string
	for _, step := range end.Steps {
		said, stock = append(said, step.Said), append(stock, step.Stores.values()["stock:{1001}"])
	}
	testkit.Is(t, strings.Join(said, " "), "1 1 OK 1 OK 2", "Redis has answered")
	if got := strings.Join(stock, " "); got != "1 1 0 0 0 0" || end.Start.values()["stock:{1001}"] != "1" {
		t.Errorf("the stock was %s", got)
	}
	if end.Orders != 2 || end.Clients[0].Answer != "ok" || end.Clients[1].Answer != "ok" {
		t.Errorf("%d orders, answers %+v; want two, and both were told ok", end.Orders, end.Clients)
	}
	end = played(t, s, "before-commit", "aaaaaabbbb")
	if b := end.Clients[1]; b.Phase != Waiting || !strings.Contains(b.Command, "UPDATE") {
		t.Errorf("B is %+v, want that it waits with its UPDATE", b)
	}
	if rows := end.Steps[9].Stores.SQL[0].Rows; rows[0][1] != "1" {
		t.Errorf("before COMMIT others see %v, want the stock 1", rows)
	}
}

// A shorter schedule is played from the start, and leads to the same state as before.
func testUndo(t *testing.T, s *Stepper) {
	first := played(t, s, "fencing", "aaxbba")
	played(t, s, "fencing", "aaxbbaaaab")
	again := played(t, s, "fencing", "aaxbba")
	for _, state := range []*State{first, again} {
		for i := range state.Steps { // owners and times differ
			state.Steps[i].Stores.Redis = nil
			state.Steps[i].Said = strings.Split(state.Steps[i].Said, " 20")[0]
		}
	}
	if !reflect.DeepEqual(first, again) {
		t.Errorf("played again after undo: %+v, want %+v", again, first)
	}
	if keys := again.Start.values(); len(keys) > 0 {
		t.Errorf("at the beginning Redis has %v, want no locks of earlier schedules", keys)
	}
}

// A schedule after one in which a client was refused begins with the same commands, whatever a replica remembers.
func testRefused(t *testing.T, s *Stepper) {
	first := played(t, s, "lease-seq", "")
	if end := onward(t, s, onward(t, s, first, 0), 1); end.Clients[1].Answer != "refused sold_out" {
		t.Fatalf("B is %+v, want that it is refused", end.Clients[1])
	}
	if again := played(t, s, "lease-seq", ""); again.Clients[1].Command != first.Clients[1].Command {
		t.Errorf("B begins with %s, want %s", again.Clients[1].Command, first.Clients[1].Command)
	}
}

// The replica has what the primary has, unless it applies nothing; then a client reads what was, also after a restart.
func testReplica(t *testing.T, s *Stepper) {
	for moves, want := range map[string][2]string{"": {"refused sold_out", "0"}, "x": {"ok", "1"}, "xbkbr": {"ok", "1"},
		"xx": {"refused sold_out", "0"}} {
		end := onward(t, s, onward(t, s, played(t, s, "perfect-lock", moves), 0), 1)
		replica := end.Steps[len(end.Steps)-1].Stores.SQL[1].Rows[0][1]
		if got := [2]string{end.Clients[1].Answer, replica}; got != want {
			t.Errorf("%s: B is told, and the replica has, %q, want %q", moves, got, want)
		}
	}
}

// A lock with a TTL expires unless a live process renews it.
func testExpire(t *testing.T, s *Stepper) {
	const lock = "lock:watchdog:{1001}"
	live := played(t, s, "watchdog", "ax")
	if _, there := live.Steps[1].Stores.values()[lock]; !there || !live.Steps[1].Renewed {
		t.Errorf("the lock of a live process: %+v, want it renewed", live.Steps[1])
	}
	for _, moves := range []string{"aasx", "aakx"} {
		end := played(t, s, "watchdog", moves)
		if _, there := end.Steps[2].Stores.values()[lock]; there || end.Steps[2].Renewed {
			t.Errorf("%s: %+v, want the lock expired", moves, end.Steps[2])
		}
	}
}

// A move that is not possible is left out, and so are all moves after it, and those after the last that a schedule may
// have.
func testImpossible(t *testing.T, s *Stepper) {
	for moves, want := range map[string]string{
		"ac": "", "aza": "a", "asab": "as", "asah": "as", "aaaa": "aaa", "akab": "ak", "akara": "akara", "ahh": "ah",
		"aha": "aha", "ahl": "ah",
		"ahala":                         "ahal", // the answer to the third command is lost, and the client has its answer
		strings.Repeat("x", maxMoves+1): strings.Repeat("x", maxMoves),
	} {
		end := played(t, s, "sell-twice", moves)
		if end.Moves != want || end.Cut != (want != moves) {
			t.Errorf("%s leads to %q (cut %t), want %q (cut %t)", moves, end.Moves, end.Cut, want, want != moves)
		}
	}
}

// A reader may think for as long as he likes: the time does not count against the commands that are held.
func testThought(t *testing.T, s *Stepper) {
	played(t, s, "lock-out", "")
	first := s.play
	played(t, s, "lock-out", "a")
	if s.play != first {
		t.Error("a schedule was played again although nobody thought")
	}
	s.play.left = s.play.left.Add(-maxThought / 2)
	played(t, s, "lock-out", "aa")
	if s.play != first {
		t.Error("a schedule was played again after a short thought")
	}
	s.play.left = s.play.left.Add(-maxThought * 3 / 4)
	if state := played(t, s, "lock-out", "aaa"); s.play == first || state.Moves != "aaa" || len(state.Steps) != 3 {
		t.Errorf("after two thoughts, %s of the first schedule, want all of another", state.Moves)
	}
}

func TestShared(t *testing.T) {
	t.Parallel()
	testkit.Is(t, shared([]string{"a", "as", "x"}, []string{"a", "as", "b", "b"}), 2, "shared()")
}

// onward plays a client's commands until the client has its answer, waits, or is dead.
func onward(t *testing.T, s *Stepper, state *State, client int) *State {
	t.Helper()
	for len(parse(state.Moves)) < maxMoves && slices.Contains(state.Clients[client].Can, advance) {
		state = played(t, s, state.Lesson, state.Moves+[]string{"a", "b"}[client])
	}
	return state
}

// again continues a client that was stopped, repeats its request if possible, and plays its commands up to the answer.
func again(t *testing.T, s *Stepper, state *State, client int) *State {
	t.Helper()
	for _, verb := range []string{goOn, askAgain} {
		if slices.Contains(state.Clients[client].Can, verb) {
			state = onward(t, s, played(t, s, state.Lesson, state.Moves+[]string{"a", "b"}[client]+verb), client)
		}
	}
	return onward(t, s, state, client)
}

// A lesson that cannot be won is not won by any fault before any command of A, whatever B does meanwhile, nor by random
// moves.
func testNoWay(t *testing.T, s *Stepper, lesson string) {
	lost := func(state *State) {
		t.Helper()
		if state.Won >= 0 {
			t.Fatalf("%s is won by %s: %+v", lesson, state.Moves, state.Steps[len(state.Steps)-1].Stores)
		}
	}
	commands := len(onward(t, s, played(t, s, lesson, ""), 0).Steps)
	if commands < 1 {
		t.Fatalf("%s has %d commands, want more", lesson, commands)
	}
	for k := range commands + 1 {
		for _, harm := range []string{"al", "asx", "akx", "ah", "x"} {
			state := played(t, s, lesson, strings.Repeat("a", k)+harm)
			state = again(t, s, onward(t, s, state, 1), 0)
			state = again(t, s, again(t, s, onward(t, s, state, 1), 1), 0)
			lost(state)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		state := played(t, s, lesson, "")
		for range 40 {
			client := random.IntN(2)
			can := slices.DeleteFunc(slices.Clone(state.Clients[client].Can), func(verb string) bool { return verb == kill })
			move := expire
			if len(can) > 0 && random.IntN(8) > 0 {
				move = []string{"a", "b"}[client] + can[min(random.IntN(2*len(can)), len(can)-1)*random.IntN(2)]
			}
			state = played(t, s, lesson, state.Moves+move)
		}
		lost(state)
	}
}

// The servers end when nobody plays, and the next schedule starts them again.
func testIdle(t *testing.T, s *Stepper) {
	s.options.Idle = time.Second
	played(t, s, "sell-twice", "a")
	ended := func() bool {
		s.busy <- struct{}{}
		defer func() { <-s.busy }()
		return s.servers == nil
	}
	testkit.Until(t, "the servers have ended after a second without a move", ended)
	if again := played(t, s, "sell-twice", "aba"); len(again.Steps) != 3 {
		t.Errorf("after the pause %d moves were played, want 3", len(again.Steps))
	}
	testkit.Check(t, s.Close())
	if _, err := s.Play(t.Context(), "sell-twice", ""); err == nil {
		t.Error("a closed stepper plays")
	}
}
