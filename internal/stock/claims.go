package stock

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lastitem/contract/api"
	"lastitem/docs"
	"lastitem/say/text"
)

// The claims that several modes share, named after what keeps two requests apart.
var (
	// renewedLock: a lock in Redis, renewed while its holder lives. The holder loses it to a stop or to a failover, and
	// then still writes, for the write has no condition. Where the count is in Redis too, stock and order are two
	// commands, so that a crash between them leaks.
	renewedLock = map[Store]Claims{
		Redis: {Threads: ".", Replicas: ".", Slow: ".", Late: ".", Pause: "O", Crash: "L", Failover: "OLA", Retry: "D",
			LateWrite: "OL"},
		SQL: {Threads: ".", Replicas: ".", Slow: ".", Late: ".", Pause: "O", Crash: ".", Failover: "O", Stale: "O",
			Retry: "D", LateWrite: "O"},
	}
	// expiringLock: the same without renewal. Slow work loses it too.
	expiringLock = map[Store]Claims{
		Redis: {Threads: ".", Replicas: ".", Slow: "O", Late: ".", Pause: "O", Crash: "L", Failover: "OLA", Retry: "D",
			LateWrite: "OL"},
		SQL: {Threads: ".", Replicas: ".", Slow: "O", Late: ".", Pause: "O", Crash: ".", Failover: "O", Stale: "O",
			Retry: "D", LateWrite: "O"},
	}
	// carelessRelease: the same, and a late release may delete the lock of the next holder.
	carelessRelease = map[Store]Claims{
		Redis: {Threads: ".", Replicas: ".", Slow: "O", Late: "O", Pause: "O", Crash: "L", Failover: "OLA", Retry: "D",
			LateWrite: "OL"},
		SQL: {Threads: ".", Replicas: ".", Slow: "O", Late: "O", Pause: "O", Crash: ".", Failover: "O", Stale: "O",
			Retry: "D", LateWrite: "O"},
	}
	// guardedWrite: a lock in Redis, and a write that fails once another holder has been there.
	guardedWrite = map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: ".", Late: ".", Pause: ".", Crash: ".", Failover: ".", Retry: "D",
			LateWrite: "."},
	}
	// oneTransaction: the database decides. Nothing expires, and no Redis takes part.
	oneTransaction = map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: "–", Late: "–", Pause: ".", Crash: ".", Failover: "–", Retry: "D",
			LateWrite: "."},
	}
	// firstAnswer: the same, and a repeated key gets the first answer.
	firstAnswer = map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: "–", Late: "–", Pause: ".", Crash: ".", Failover: "–", Retry: ".",
			LateWrite: "."},
	}
	// firstEnd: the same for a reservation, which ends once.
	firstEnd = map[Store]Claims{
		SQL: {Threads: ".", Replicas: ".", Slow: "–", Late: "–", Pause: ".", Crash: ".", Failover: "–", Retry: ".",
			LateWrite: ".", Expiry: "."},
	}
)

// Doc returns the essay of a mode in both languages, Markdown: its page in docs/modes, without the generated blocks.
func (m Mode) Doc() (text.Text, error) {
	en, errEn := docs.Essay(m.Name, "en")
	zh, errZh := docs.Essay(m.Name, "zh")
	return text.Text{En: en, Zh: zh}, errors.Join(errEn, errZh)
}

// API is the mode as GET /modes shows it, less what only a running shop knows: Default, Available, Why and Down. Lists
// are never null, and every claim names all hazards.
func (m Mode) API() api.Mode {
	out := api.Mode{
		Name: m.Name, Title: m.Title,
		Needs: words[string](m.Needs), Stores: words[api.Store](m.Stores), Holds: words[string](m.Holds),
		Cart: m.Cart, KeyRequired: m.KeyRequired, Segments: m.Segments, Units: m.Units(),
		Reserves: m.Reserves, Tickets: m.Tickets, PerBuyer: m.PerBuyer || m.Reserves, Adjusts: m.Adjusts,
		Baseline: len(m.Stores) == 0,
		Claims:   map[api.Store]map[api.Hazard]api.Outcomes{},
	}
	for store := range m.Claims {
		row := map[api.Hazard]api.Outcomes{}
		for i, o := range m.Row(store) {
			row[api.Hazard(Hazards[i])] = api.Outcomes(o)
		}
		out.Claims[api.Store(store)] = row
	}
	return out
}

// words are the same words in another type.
func words[To, From ~string](from []From) []To {
	to := make([]To, len(from))
	for i, word := range from {
		to[i] = To(word)
	}
	return to
}

// Hazards names the columns of the claims table, in its order.
var Hazards = func() (words []string) {
	for _, h := range api.Hazards {
		words = append(words, h.Word)
	}
	return words
}()

// Row returns what a mode claims with a store, in the order of [Hazards]. A mode that holds nothing has nothing that
// expires, one without a queue nothing that is delivered again, and one that reads nothing in SQL outside a transaction
// nothing that a replica would answer, so they say nothing about that.
func (m Mode) Row(s Store) []string {
	c := m.Claims[s]
	if !m.Reserves && c.Expiry == "" {
		c.Expiry = "–"
	}
	if !m.Tickets && c.Redelivery == "" {
		c.Redelivery = "–"
	}
	if c.Stale == "" && (s != SQL || c.Threads == "." && c.Replicas == ".") {
		c.Stale = "–"
	}
	return c.row()
}

func (c Claims) row() []string {
	return []string{
		c.Threads, c.Replicas, c.Slow, c.Late, c.Pause, c.Crash, c.Failover, c.Stale, c.Retry, c.Redelivery,
		c.LateWrite, c.Expiry,
	}
}

var (
	kebab    = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	outcomes = regexp.MustCompile(`^(|\.|–|O?L?D?X?A?B?U?)$`)
)

// Validate rejects an incomplete list of modes: one that cannot be served (see [Servable]), or one in which an essay or
// a diagram is missing. Tests and 'make generate' call it; a server only leaves out what is missing.
func Validate(modes []Mode) error {
	errs := []error{Servable(modes)}
	for _, m := range modes {
		if _, err := m.Doc(); err != nil {
			errs = append(errs, m.faulty("%v", err))
		}
		if why := m.diagramFault(); why != "" {
			errs = append(errs, m.faulty("%s", why))
		}
	}
	return errors.Join(errs...)
}

// Servable rejects a list of modes that cannot be served: a bad or repeated name, no title, no way to build one, claims
// that do not cover its stores, are not outcomes, come after threads or replicas have broken it, or are blank before.
func Servable(modes []Mode) error {
	seen := map[string]bool{}
	var errs []error
	bad := func(m Mode, format string, args ...any) { errs = append(errs, m.faulty(format, args...)) }
	for _, m := range modes {
		if !kebab.MatchString(m.Name) || seen[m.Name] {
			bad(m, "its name is not kebab-case or not unique")
		}
		seen[m.Name] = true
		if m.Title.En == "" || m.Title.Zh == "" || m.New == nil {
			bad(m, "title or New is missing")
		}
		if len(m.Claims) != len(m.Stores) {
			bad(m, "claims for %d stores, has %d", len(m.Claims), len(m.Stores))
		}
		for _, s := range m.Stores {
			if why := m.claimFault(s); why != "" {
				bad(m, "store %s: %s", s, why)
			}
		}
	}
	return errors.Join(errs...)
}

func (m Mode) faulty(format string, args ...any) error {
	return fmt.Errorf("stock: mode %q: %s", m.Name, fmt.Sprintf(format, args...))
}

// claimFault describes the first mistake in what a mode claims with a store; "" = none.
func (m Mode) claimFault(s Store) string {
	c, row := m.Claims[s], m.Row(s)
	for i, o := range row {
		if !outcomes.MatchString(o) {
			return fmt.Sprintf("%s: %q is no outcome", Hazards[i], o)
		}
	}
	broken := c.Threads != "." || c.Replicas != "."
	blank := slices.Index(row[2:], "")
	switch {
	case c.Threads == "":
		return "claims nothing for threads"
	case c.Threads == "." && c.Replicas == "":
		return "claims nothing for replicas"
	case !m.Reserves && c.Expiry != "":
		return "holds nothing and claims something for expiry"
	case broken && strings.Join(c.row()[2:], "") != "":
		return "is broken by concurrency alone and claims more"
	case c.Threads != "." && c.Replicas != "":
		return "is broken by threads and claims something for replicas"
	case !broken && blank >= 0:
		return fmt.Sprintf("claims nothing for %s, though neither threads nor replicas break it", Hazards[2+blank])
	}
	return ""
}
