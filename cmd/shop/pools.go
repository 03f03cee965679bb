package main

import (
	"lastitem/internal/backend"
	"lastitem/internal/handler"
)

// poolStats shows the connection pools to the metrics.
func poolStats(set *backend.Set) func() []handler.Pool {
	return func() []handler.Pool {
		var all []handler.Pool
		for _, p := range set.Pools() {
			all = append(all, handler.Pool(p))
		}
		return all
	}
}
