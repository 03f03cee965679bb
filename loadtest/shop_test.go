package loadtest

import (
	"testing"

	"lastitem/contract/api"
	"lastitem/testkit"
	"lastitem/testkit/fakeshop"
)

// open starts the shop and returns its control.
func open(t *testing.T, s *fakeshop.Shop) *Control {
	t.Helper()
	c, err := NewControl(s.Start(t)+"/", fakeshop.Token)
	testkit.Must(t, err)
	t.Cleanup(c.Close)
	c.Replicas = s.Replicas
	return c
}

// shopMode builds a mode with its claim at threads and replicas.
func shopMode(name string, claim api.Outcomes) api.Mode {
	return api.Mode{
		Name: name, Stores: []api.Store{api.Redis}, Available: true,
		Claims: map[api.Store]map[api.Hazard]api.Outcomes{api.Redis: {api.Threads: claim, api.Replicas: claim,
			api.Retry: "D"}},
	}
}
