package store_test

import (
	"slices"
	"testing"

	"lastitem/internal/store"
)

// On a cluster the segments of a product lie in several slots, so no transaction reaches all of them.
func TestRedisSegmentsOnACluster(t *testing.T) {
	t.Parallel()
	for name, addresses := range map[string]int{"cluster client": 2, "plain client": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := onClusterNode(t, addresses)
			reset(t, r, 1, 10, 3)
			if err := r.SetSegments(t.Context(), 1, map[int]int64{0: 1, 2: 2}, true); err != nil {
				t.Errorf("SetSegments(): %v", err)
			}
			if f, _, err := r.Snapshot(t.Context(), 1, store.Want{Orders: 5}); err != nil || !slices.Equal(f.Segments, []int64{1, 3, 2}) {
				t.Errorf("Snapshot() = %+v, %v, want the segments 1, 3 and 2", f, err)
			}
		})
	}
}
