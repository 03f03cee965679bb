package reservationtest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"lastitem/contract/ledger"
	"lastitem/testkit"
)

// Race has many speak at once: forty buyers about the last unit, a buyer about more than he may have, adjustments about
// the last units, and payments, cancels and sweeps about one reservation, some at its deadline.
func Race(t testing.TB, s Seam, product int64) {
	t.Helper()
	p := New(t, s, product)
	begin := func(rules ledger.Rules) {
		p.Space += "." // no payment and no key of an earlier round
		p.Begin(rules)
	}
	begin(ledger.Rules{PerBuyer: 4})
	p.Play("hold z 4 = held 1")
	p.AtOnce(40, 0, map[string]int{"held": 1, "sold_out": 39}, "hold x#/1 1")
	begin(ledger.Rules{PerBuyer: 4})
	p.AtOnce(10, 0, map[string]int{"held": 4, "limit_reached": 6}, "hold x/# 1")
	if p.knows("adjust ") {
		begin(ledger.Rules{})
		p.AtOnce(12, 0, map[string]int{"adjusted": 12}, "adjust k 4", "adjust l -3")
		p.AtOnce(12, 0, map[string]int{"adjusted": 3, "sold_out": 9}, "adjust m# -2")
	}
	for round := range 20 {
		name, verb := fmt.Sprint("a", round), []string{"hold ", "brief "}[round%2]
		end := []string{"cancel " + name, "sweep"}[round%2]
		begin(ledger.Rules{})
		if p.knows("again ") { // three requests with one key
			p.AtOnce(3, 0, map[string]int{"held": 3}, verb+name+" 5")
		} else {
			p.Say(verb + name + " 5 = held 0")
		}
		p.AtOnce(4, time.Duration(round%5)*p.Brief/10, nil, "confirm "+name+" p", "confirm "+name+" q", end, end)
		if ends := len(p.book().Rows[0].Payments); ends != 2 {
			t.Errorf("%d payments have an end, want 2", ends)
		}
	}
}

// AtOnce says n sentences at the same time, or one after the other with a pause: those given, by turns, with the number
// in place of a #. It wants so many answers that begin with a word; nil = it does not matter.
func (p *Player) AtOnce(n int, pause time.Duration, want map[string]int, sentences ...string) {
	p.Helper()
	var group sync.WaitGroup
	said, count := make(chan string, n), map[string]int{}
	for i := range n {
		group.Go(func() {
			time.Sleep(time.Duration(i) * pause)
			said <- p.Do(strings.ReplaceAll(sentences[i%len(sentences)], "#", fmt.Sprint(i)))
		})
	}
	group.Wait()
	for range n {
		word, _, _ := strings.Cut(<-said, " ")
		count[word]++
	}
	if want != nil {
		testkit.Same(p.TB, count, want, "at once, %q", sentences)
	}
	p.Sound("at once")
}
