package faultlab

import (
	"slices"
	"testing"
)

func TestDescendants(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		children map[int][]int
		want     []int
	}{
		"alone":                {map[int][]int{2: {3}}, []int{1}},
		"two generations":      {map[int][]int{1: {2, 3}, 3: {4}}, []int{1, 2, 3, 4}},
		"a pid was used again": {map[int][]int{1: {2}, 2: {3}, 3: {2}}, []int{1, 2, 3}},
	} {
		if got := descendants(1, test.children); !slices.Equal(got, test.want) {
			t.Errorf("%s: descendants(1) = %v, want %v", name, got, test.want)
		}
	}
}
