package ledger

// Adjustment is a change of a product's stock from outside. The first of a run is its setting, and has no key; the
// others added units, or took free ones, while the product was sold. The initial stock is the sum of all.
type Adjustment struct {
	Delta  int64  `json:"delta"`
	Reason string `json:"reason,omitempty"`
	Key    []byte `json:"key,omitempty"`
	// Initial is the initial stock with it, and Stock the units that were free after it.
	Initial int64 `json:"initial"`
	Stock   int64 `json:"stock"`
	// AtMicros is in microseconds since the epoch by the store's clock, in etcd by the replica's.
	AtMicros int64 `json:"at_us"`
	// Older is how many adjustments a setting includes that nobody is told of any more.
	Older int64 `json:"older,omitempty"`
}

// MostAdjustments is how many adjustments of a run a reader is told of, the newest.
const MostAdjustments = 10_000

// Journal lists the adjustments of a run from the newest ones, in their order. There are count in all, and all deltas
// add up to sum.
func Journal(newest []Adjustment, count, sum int64) []Adjustment {
	if older := count - int64(len(newest)); older > 0 {
		for _, a := range newest {
			sum -= a.Delta
		}
		return append([]Adjustment{{Delta: sum, Older: older - 1}}, newest...)
	}
	return newest
}
