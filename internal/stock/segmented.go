package stock

import (
	"context"
	"math/rand/v2"
	"time"

	"lastitem/internal/lock"
	"lastitem/internal/step"
	"lastitem/say/text"
)

// segmented splits the stock into N segments, a count and a lock each, so that N requests can deduct at once. It sells
// every unit: if a segment is empty, a request goes to the others. A request for more than any one segment holds draws
// on several, under all their locks, which are taken in order so that two such requests cannot deadlock.
//
//	A   lock #3 ── GET 1 ── SET 0 ── order ── unlock
//	B   lock #7 ── GET 4 ── SET 3 ── order ── unlock                at the same time
//	C   #3 empty ── lock #7 ── ...                                  spills over
var segmented = Mode{
	Name:     "segmented",
	Title:    text.Of("Stock in N segments, a lock each; empties spill over"),
	Needs:    []Backend{NeedRedis},
	Stores:   []Store{Redis},
	Holds:    holdsAll,
	Segments: 10,
	Adjusts:  true,
	Claims:   map[Store]Claims{Redis: renewedLock[Redis]},
	New: func(d Deps) (Deductor, error) {
		l, err := d.Lockers.handoff()
		return segmentedDeductor{d, l}, err
	},
}

type segmentedDeductor struct {
	deps   Deps
	locker lock.Locker
}

// Deduct reads the counts before it locks. If all segments together hold too little, it refuses without a lock: counts
// only fall, so waiting would not help. If one segment holds enough, it takes the units there; otherwise it draws on
// several.
func (s segmentedDeductor) Deduct(ctx context.Context, req Request) (Receipt, error) {
	ctx = lock.ShareWait(lock.WithWait(ctx, req.Wait))
	deadline := time.Now().Add(req.Wait)
	item := req.Items[0]
	for {
		counts, split, err := s.deps.Redis.Segments(ctx, item.ProductID)
		if err != nil {
			return Receipt{}, err
		}
		if sum := total(counts); sum < item.Quantity {
			return Receipt{}, soldOut(item, sum)
		}
		chosen := choose(counts, item.Quantity)
		r, ok, err := s.draw(ctx, req, chosen, split)
		if ok || err != nil {
			return r, err
		}
		if time.Now().After(deadline) { // at each try others had sold the units since the read
			return Receipt{}, ErrContended
		}
	}
}

func total(counts []int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// choose picks one segment that holds enough, at random so that requests spread; else every segment that holds any.
func choose(counts []int64, quantity int64) []int {
	var enough, some []int
	for i, n := range counts {
		if n >= quantity {
			enough = append(enough, i)
		}
		if n > 0 {
			some = append(some, i)
		}
	}
	if len(enough) > 0 {
		return []int{enough[rand.IntN(len(enough))]}
	}
	return some
}

// draw locks the segments in order, reads them again, and takes the units. ok is false when they no longer hold enough.
func (s segmentedDeductor) draw(ctx context.Context, req Request, segments []int, split bool) (r Receipt, ok bool,
	err error) {
	d, item := s.deps, req.Items[0]
	leases, err := s.lock(ctx, req, segments)
	defer func() {
		for _, lease := range leases {
			d.Locks.Release(ctx, lease)
		}
	}()
	if err != nil {
		return Receipt{}, false, err
	}
	left := item.Quantity
	after := map[int]int64{}
	for _, i := range segments {
		n, err := d.Redis.ReadSegment(ctx, item.ProductID, i, split)
		if err != nil {
			return Receipt{}, false, err
		}
		if taken := min(n, left); taken > 0 {
			after[i] = n - taken
			left -= taken
		}
	}
	d.Steps.At(ctx, step.Read, "")
	if left > 0 {
		return Receipt{}, false, nil
	}
	if err := req.work(ctx); err != nil {
		return Receipt{}, false, err
	}
	r, err = s.write(ctx, req, after, split)
	return r, err == nil, err
}

// lock takes the locks of the segments, in the order given. The caller releases the returned leases, also after an
// error.
func (s segmentedDeductor) lock(ctx context.Context, req Request, segments []int) (leases []lock.Lease, err error) {
	for _, i := range segments { // rising, as choose made them: two requests cannot wait for each other in a circle
		lease, err := req.acquireKey(ctx, s.locker, s.deps.Locks.SegmentKey(req.Items[0].ProductID, i))
		if err != nil {
			return leases, err
		}
		leases = append(leases, lease)
	}
	return leases, nil
}

// write sets the segments and appends the order, as the other trusting modes do, with the same gap in between.
func (s segmentedDeductor) write(ctx context.Context, req Request, after map[int]int64, split bool) (Receipt, error) {
	d, item := s.deps, req.Items[0]
	order, err := d.Orders.New(req, nil, 0) // the remaining stock of the other segments is not known
	if err != nil {
		return Receipt{}, err
	}
	if err := Begin(ctx); err != nil {
		return Receipt{}, err
	}
	err = Settle(ctx, func(ctx context.Context) error { return d.Redis.SetSegments(ctx, item.ProductID, after, split) })
	if err != nil {
		return Receipt{}, err
	}
	d.Steps.At(ctx, step.Written, "")
	if err := d.Orders.Append(ctx, order); err != nil {
		return Receipt{}, err
	}
	d.Steps.At(ctx, step.Ordered, "")
	return Receipt{OrderID: order.ID}, nil
}
