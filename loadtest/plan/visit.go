package plan

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Act is what a buyer does after the reservation.
type Act int

// What buyers do.
const (
	Leaves Act = iota
	Pays
	PaysLate
	Cancels
)

// Visit is what one buyer will do.
type Visit struct {
	Act   Act
	After time.Duration // the answer to the reservation; of PaysLate: its request
	Twice bool          // a double click
	Buyer string        // "" = not named

	Extends, Returns, Restock, Cart bool

	Adjust int64 // the units by which the stock is adjusted before; 0 = it is not
}

// Visits returns a function that chooses what the buyers of one source of requests do, numbered by stream: the same
// plan makes the same choices. As many units are added as are taken.
func (p Plan) Visits(stream int) func() Visit {
	next := p.buyers(stream)
	if p.Adjust == 0 {
		return next
	}
	random := rand.New(rand.NewPCG(p.Seed, 1<<33+uint64(stream)))
	return func() Visit {
		v := next()
		if random.Float64() < p.Adjust {
			v.Adjust = p.Quantity * []int64{2, -2}[random.IntN(2)]
		}
		return v
	}
}

// buyers is Visits without adjustments.
func (p Plan) buyers(stream int) func() Visit {
	h := p.Reserving
	if h == (Reserving{}) {
		return func() Visit { return Visit{} }
	}
	random := rand.New(rand.NewPCG(p.Seed, 1<<32+uint64(stream)))
	buyer := func() uint64 { return random.Uint64N(uint64(max(h.Buyers, 1))) }
	if h.BuyerZipf > 1 {
		buyer = rand.NewZipf(random, h.BuyerZipf, 1, uint64(max(h.Buyers, 1)-1)).Uint64
	}
	return func() Visit {
		share, spread := random.Float64(), time.Duration(random.Float64()*float64(h.PayTo-h.PayFrom))
		v := Visit{After: h.PayFrom + spread, Twice: random.Float64() < h.DoubleClicks}
		atOnce := random.IntN(2) == 0
		switch {
		case share < h.Pays:
			v.Act = Pays
		case share < h.Pays+h.Cancels:
			v.Act = Cancels
		case share < h.Pays+h.Cancels+h.PaysLate:
			// Half of these payments meet the deadline: the request was before it, so it passes during the confirm.
			if v.Act, v.After = PaysLate, h.For+spread; atOnce {
				v.After = h.For
			}
		}
		if n := buyer(); h.Buyers > 0 {
			v.Buyer = fmt.Sprintf("buyer-%d", n+1)
		}
		v.Cart, v.Returns, v.Restock = random.Float64() < h.Carts, random.Float64() < h.Returns, atOnce
		v.Extends = random.Float64() < h.Extends || h.Extends > 0 && v.Act == Leaves && atOnce
		return v
	}
}

// secondProducts is how far the second product of a plan is from the first: far from those in use.
const secondProducts = 910_000_000

// Second is the product that [Reserving].Carts is about.
func (p Plan) Second() int64 { return p.Product + secondProducts }

// Picker returns a function that chooses the products of one source of requests, numbered by stream: the same plan
// makes the same choices. With a skew, the first product is chosen most often.
func (p Plan) Picker(stream int) func() int64 {
	if p.Products <= 1 {
		return func() int64 { return p.Product }
	}
	random := rand.New(rand.NewPCG(p.Seed, uint64(stream)))
	if p.Zipf > 1 {
		zipf := rand.NewZipf(random, p.Zipf, 1, uint64(p.Products-1))
		return func() int64 { return p.Product + int64(zipf.Uint64()) }
	}
	return func() int64 { return p.Product + random.Int64N(int64(p.Products)) }
}
