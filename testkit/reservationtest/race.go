package reservationtest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"lastitem/contract/ledger"
	"lastitem/testkit"
)

// Race has many speak at once: forty buyers about the last unit, a buyer about more than he may have, and payments,
// cancels and sweeps about one reservation, some at its deadline. What each may hear is told, and the books stay right.
func (p *Player) Race() {
	p.Helper()
	testkit.Must(p.TB, p.Begin(ledger.Rules{PerBuyer: 4}))
	p.Play("hold z 4 = held 1")
	testkit.Same(p.TB, p.all(40, func(i int) string { return fmt.Sprintf("hold x%d/1 1", i) }),
		map[string]int{"held": 1, "short": 39}, "the last unit")
	testkit.Must(p.TB, p.Begin(ledger.Rules{PerBuyer: 4}))
	testkit.Same(p.TB, p.all(10, func(i int) string { return fmt.Sprintf("hold x/%d 1", i) }),
		map[string]int{"held": 4, "limit": 6}, "double clicks")
	p.Sound("double clicks")
	for round := range 20 {
		testkit.Must(p.TB, p.Begin(ledger.Rules{}))
		name := fmt.Sprint("h", round)
		p.Do([]string{"hold ", "brief "}[round%2] + name + " 5")
		if p.cannot(" again ") == "" {
			testkit.Same(p.TB, p.all(3, func(int) string { return "again " + name + " 5" }), map[string]int{"held": 3},
				"the same request again")
		}
		last := []string{"cancel " + name, "sweep"}[round%2]
		p.all(4, func(i int) string {
			time.Sleep(time.Duration(round%5*i) * p.Brief / 10)
			return []string{"confirm " + name + " p" + name, "confirm " + name + " q" + name, last, last}[i]
		})
		if ends := len(p.Sound(last).Rows[0].Payments); ends != 2 {
			p.Errorf("%d payments have an end, want 2", ends)
		}
	}
}

// all says n sentences at once, each when it is made, and counts what came of them, by the first word.
func (p *Player) all(n int, sentence func(i int) string) map[string]int {
	var group sync.WaitGroup
	said := make(chan string, n)
	for i := range n {
		group.Go(func() { said <- p.Do(sentence(i)) })
	}
	group.Wait()
	count := map[string]int{}
	for range n {
		word, _, _ := strings.Cut(<-said, " ")
		count[word]++
	}
	return count
}
