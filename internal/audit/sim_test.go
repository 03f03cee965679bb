package audit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"lastitem/internal/api"
)

// shop is a toy service whose deductions take several steps, run in a random order by run.
type shop struct {
	r      *rand.Rand
	stock  int64
	ledger api.Ledger
	ops    []Op
	clock  int64
	lock   bool
	crash  int // the deduction that dies between the write and the order, or none
}

// buyer is one request in progress.
type buyer struct {
	at   int // index of its op
	step int
	read int64
}

// run lets buyers come in, a few at a time, and takes their steps in random order until all have ended.
func (s *shop) run(buyers int, exclusive bool) Input {
	initial := s.stock
	var active []*buyer
	for buyers > 0 || len(active) > 0 {
		s.clock++
		if buyers > 0 && (len(active) == 0 || s.r.IntN(4) == 0) && len(active) < 6 {
			buyers--
			s.ops = append(s.ops, op(Unknown, s.clock, 0, int64(1+s.r.IntN(3)), "", ""))
			active = append(active, &buyer{at: len(s.ops) - 1})
			continue
		}
		i := s.r.IntN(len(active))
		if s.advance(active[i], exclusive) {
			active = append(active[:i], active[i+1:]...)
		}
	}
	s.ledger.ProductID = 101
	s.ledger.Initial = map[api.Store]int64{api.Redis: initial}
	s.ledger.Stock = map[api.Store]int64{api.Redis: s.stock}
	return Input{Mode: "m", Store: api.Redis, Replicas: 3, Ledger: &s.ledger, History: s.ops}
}

// advance takes one step of read, check, write, append, answer; exclusive runs them under a lock that a crash releases.
func (s *shop) advance(b *buyer, exclusive bool) (done bool) {
	o := &s.ops[b.at]
	switch b.step {
	case 0:
		if exclusive && s.lock {
			return false
		}
		s.lock = true
		b.read = s.stock
		if b.read < o.Quantity {
			o.Outcome = Refused
			b.step = 2
		}
	case 1:
		s.stock = b.read - o.Quantity
		if b.at == s.crash {
			s.lock = false
			return true
		}
	case 2:
		if o.Outcome == Refused {
			break
		}
		left := s.stock
		if !exclusive {
			left = b.read - o.Quantity
		}
		o.OrderID = fmt.Sprint("o", b.at)
		s.ledger.Orders = append(s.ledger.Orders, api.Order{
			OrderID: o.OrderID, ProductID: 101, Quantity: o.Quantity, Remaining: &left, Mode: "m", Store: api.Redis, Replica: o.Replica,
		})
	case 3:
		s.lock = false
		if o.Outcome == Unknown {
			o.Outcome = OK
		}
		o.Return = s.clock
		return true
	}
	b.step++
	return false
}

// TestSimulated judges toy services: one that is exact, one that is unsafe, one whose holder dies before the order. The judge
// must find the defect of each, and nothing that its claim does not cover.
func TestSimulated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		exclusive bool
		crash     bool
		claim     api.Outcomes
		found     string // in most runs
	}{
		{"locked", true, false, api.Exact, ""},
		{"unsafe", false, false, "O", "O"},
		{"locked, holder dies", true, true, "L", "L"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(5, 6))
			confirmed := 0
			for range 1000 {
				s := &shop{r: r, stock: int64(10 + r.IntN(20)), crash: -1}
				if c.crash {
					s.crash = r.IntN(2)
				}
				report := Judge(s.run(40, c.exclusive))
				finding, why := Check(report, c.claim)
				switch {
				case finding == Confirmed:
					confirmed++
				case report.Verdict != Exact && finding == Contradicted:
					t.Fatalf("Check = %s %q\n%s", finding, why, report.Text("en"))
				case report.Verdict == Exact && c.claim == api.Exact:
					t.Fatalf("Check = %s for %s", finding, report.Verdict)
				}
			}
			if confirmed < 900 {
				t.Errorf("the claim %q was confirmed in %d of 1000 runs", c.claim, confirmed)
			}
		})
	}
}
