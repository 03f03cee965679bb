package stock_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lastitem/internal/api"
	"lastitem/internal/audit"
	"lastitem/internal/stock"
	"lastitem/internal/stock/stocktest"
)

func TestSegmentedSellsEveryUnit(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		for _, c := range []struct {
			units, quantity int64
			segments        int
		}{
			{23, 1, 10}, {23, 1, 0}, {23, 1, 1}, {5, 1, 9}, {30, 7, 10}, {20, 5, 4},
		} {
			p := stocktest.Plan{
				Mode: "segmented", Store: stock.Redis, Replicas: 3, Stock: c.units, Quantity: c.quantity, Segments: c.segments,
				Clients: 6, Requests: int(c.units/c.quantity) + 6,
			}
			r := h.Load(t, p)
			for i := 1; i < stocktest.Rounds && r.Verdict == audit.Vacuous; i++ {
				r = h.Load(t, p)
			}
			if finding, why := audit.Check(r, api.Exact); finding != audit.Confirmed || r.Sold != c.units/c.quantity*c.quantity {
				t.Errorf("%d units in %d segments, %d at a time: %s, %d sold: %s",
					c.units, c.segments, c.quantity, finding, r.Sold, stocktest.Lines(why))
			}
		}
	})
}

func TestSegmentedDrawsOnSeveral(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 10, 4) // 3 3 2 2
		for i, c := range []struct {
			quantity int64
			want     []int64
		}{
			{7, []int64{0, 0, 1, 2}}, {3, []int64{0, 0, 0, 0}},
		} {
			h.Replicas[i].Sell(t, "segmented", stock.Redis, product, c.quantity, fmt.Sprint(i))
			p, err := h.Replicas[0].Product(t.Context(), product)
			if diff := cmp.Diff(c.want, p.Segments); err != nil || diff != "" {
				t.Errorf("segments after Deduct(%d): %v (-want +got):\n%s", c.quantity, err, diff)
			}
		}
		h.Replicas[0].Refuse(t, stock.ErrSoldOut, "segmented", stock.Redis, product, 1, "end")
	})
}

// A count without segments is one segment, and stays one.
func TestSegmentedOnOneCounter(t *testing.T) {
	stocktest.OnEach(t, func(t *testing.T, h *stocktest.Harness) {
		product := h.Product(t, 3, 0)
		h.Replicas[0].Sell(t, "segmented", stock.Redis, product, 2, "1")
		h.Replicas[1].Sell(t, "lua-lock", stock.Redis, product, 1, "2")
		h.WantBooks(t, product, stock.Redis, stocktest.Books{Initial: 3, Stock: 0, Sold: 3, Orders: 2})
	})
}
