package handoff

import (
	_ "embed" // of the package comment
	"fmt"
	"regexp"
	"strings"
	"testing"

	"lastitem/testkit"
	"lastitem/testkit/locktest"
)

//go:embed doc.go
var doc string

// The rows of the tables in the package comment: of a contender, as "idle + start -> asking", and of a hold, as
// "active -> lost: its end has come".
var (
	transitions     = rows(`(\w+) +(\+ [a-z ]*\w) +(-> \w+)`, "%s %s %s")
	holdTransitions = rows(`(\w+) +(-> \w+)  ([^:\n]+)`, "%s %s: %s")
)

func rows(table, as string) map[string]bool {
	all := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^//\t`+table).FindAllStringSubmatch(doc, -1) {
		all[fmt.Sprintf(as, row[1], row[2], strings.TrimSpace(row[3]))] = true
	}
	return all
}

var (
	stateNames = [...]string{idle: "idle", asking: "asking", queued: "queued", draining: "draining", granted: "granted"}
	eventNames = [...]string{byStart: "start", byReply: "reply", byMessage: "message", byPoll: "poll", byTimer: "timer",
		byGivingUp: "giving up",
		byRelease:  "release", byLoss: "loss"}
	holdStateNames = [...]string{holdActive: "active", holdEnded: "ended", holdLost: "lost"}
)

// TestMain has every test of the package check the transitions.
func TestMain(m *testing.M) {
	onTransition, onHoldTransition = checkTransition, checkHoldTransition
	locktest.Main(m)
}

// checkTransition panics at a transition that is not in the table, and where fields do not fit the state.
func checkTransition(c *contender, to state, because event) {
	a := &c.attempt
	switch row := fmt.Sprintf("%s + %s -> %s", stateNames[c.state], eventNames[because], stateNames[to]); {
	case !transitions[row]:
		panic("handoff: the table of a contender has no " + row)
	case a.acquireAgain && c.state != asking, (a.hold != nil || a.renewing || a.grantNoted) && c.state != granted,
		a.token == "":
		panic(fmt.Sprintf("handoff: a contender that is %s has %+v", stateNames[c.state], *a))
	}
}

func checkHoldTransition(h *hold, to holdState) {
	from := fmt.Sprintf("%s -> %s: ", holdStateNames[h.state], holdStateNames[to])
	for row := range holdTransitions {
		if strings.HasPrefix(row, from) {
			return
		}
	}
	panic("handoff: the table of a hold has no " + from)
}

// The package comment has every transition there is: a table that nobody can read would allow none.
func TestDocHasTheStates(t *testing.T) {
	t.Parallel()
	testkit.Is(t, len(transitions), 20, "rows of a contender's table")
	testkit.Is(t, len(holdTransitions), 5, "rows of a hold's table")
}
