package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lastitem/internal/api"
	"lastitem/internal/localstack"
	"lastitem/loadtest"
)

// modesPatience is how long a fresh replica may take to have a session with everything that it was given.
const modesPatience = 15 * time.Second

// awaitModes waits until every replica can serve the modes whose backends the stack has: a replica is ready without the ones that
// only some modes need, and meets them a moment later. What is not available by then is listed as such.
func awaitModes(ctx context.Context, stack *localstack.Stack) {
	has := map[string]bool{"redis": true, "sql": true, "mysql": !strings.HasPrefix(stack.SQL.URL, "sqlite:")}
	for _, x := range stack.Extras() {
		has[x.Name] = true
	}
	ctx, cancel := context.WithTimeout(ctx, modesPatience)
	defer cancel()
	for _, r := range stack.Replicas {
		for !serves(ctx, r.URL, has) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

// serves says whether all modes of the service are available that need nothing but what there is.
func serves(ctx context.Context, url string, has map[string]bool) bool {
	control, err := loadtest.NewControl(url, "")
	if err != nil {
		return false
	}
	modes, err := control.Modes(ctx)
	for _, m := range modes {
		if !m.Available && met(m, has) {
			return false
		}
	}
	return err == nil
}

// met says whether there is all that the mode needs.
func met(m api.Mode, has map[string]bool) bool {
	for _, need := range m.Needs {
		if !has[need] {
			return false
		}
	}
	return true
}

// allAvailable lists the modes that cannot be run, and why; nil where there are none.
func allAvailable(what loadtest.Comparing) error {
	var lacks []string
	for _, m := range what.Modes {
		if !m.Available {
			lacks = append(lacks, m.Name+": "+m.Why)
		}
	}
	if lacks == nil {
		return nil
	}
	return fmt.Errorf("--all: %d of %d modes are not available:\n  %s", len(lacks), len(what.Modes), strings.Join(lacks, "\n  "))
}
