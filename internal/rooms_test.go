package internal_test

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lastitem/testkit"
)

// products says how much somebody reads who wants one of them: at most so many packages of ours, the product's own and
// all that it imports, directly or not, with so many lines. Tests do not count.
var products = map[string]reading{
	"faultlab":              {15, 32_300},
	"judge":                 {4, 6_250},
	"console":               {3, 3_950},
	"stack":                 {7, 6_850},
	"internal/lock/handoff": {4, 5_900},
	"internal/replica":      {29, 41_350},
	"loadtest":              {10, 16_650},
}

type reading struct{ packages, lines int }

// closure is a package and all that it imports, directly or not.
func closure(of string, imported map[string][]string) []string {
	all := []string{of}
	for i := 0; i < len(all); i++ {
		for _, to := range imported[all[i]] {
			if !slices.Contains(all, to) {
				all = append(all, to)
			}
		}
	}
	return all
}

// tooMuch says what a product needs, and whether that is more than it may.
func tooMuch(of string, most reading, imported map[string][]string, lines map[string]int) (needs string, wrong bool) {
	all, sum := closure(of, imported), 0
	for _, dir := range all {
		sum += lines[dir]
	}
	needs = fmt.Sprintf("%s needs %d packages (may %d), %d lines (may %d)", of, len(all), most.packages, sum, most.lines)
	return needs + ": " + strings.Join(all, " "), len(all) > most.packages || sum > most.lines || lines[of] == 0
}

// plans are two drawings of the house: which part of a package's path is its room, and how many arrows run up.
var plans = []struct {
	name string
	room *regexp.Regexp
	up   int
}{
	{"folders at the first level", regexp.MustCompile(`^[^/]+`), 0},
	{"the same, and those of internal", regexp.MustCompile(`^(internal/)?[^/]+`), 0},
}

// A drawing says for each room which others its packages import. A room stands above those, on the next floor; an arrow
// that closes a circle of rooms runs up.
type drawing struct {
	arrows map[string][]string
	floor  map[string]int // from 1; 0 = under construction
	up     []string
}

func draw(imported map[string][]string, room *regexp.Regexp) drawing {
	d := drawing{arrows: map[string][]string{}, floor: map[string]int{}}
	for from, all := range imported {
		a := room.FindString(from)
		d.arrows[a] = append(d.arrows[a], []string{}...)
		for _, to := range all {
			if b := room.FindString(to); a != b && !slices.Contains(d.arrows[a], b) {
				d.arrows[a] = append(d.arrows[a], b)
			}
		}
		slices.Sort(d.arrows[a])
	}
	for _, room := range slices.Sorted(maps.Keys(d.arrows)) {
		d.build(room)
	}
	return d
}

func (d *drawing) build(room string) {
	if _, built := d.floor[room]; built {
		return
	}
	d.floor[room] = 0
	below := 0
	for _, to := range d.arrows[room] {
		d.build(to)
		if d.floor[to] == 0 {
			d.up = append(d.up, room+" -> "+to)
		}
		below = max(below, d.floor[to])
	}
	d.floor[room] = below + 1
}

// outsideTests says what each package imports of ours, and how many lines it has.
func outsideTests(t *testing.T) (imported map[string][]string, lines map[string]int) {
	t.Helper()
	imported, lines = map[string][]string{}, map[string]int{}
	sources(t, func(name string, src []byte) {
		dir := path.Dir(name)
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		lines[dir] += bytes.Count(src, []byte("\n"))
		imported[dir] = append(imported[dir], []string{}...) // it is there, even if it imports nothing
		for _, imp := range imports(name, src) {
			if to, ok := strings.CutPrefix(imp, module+"/"); ok && !slices.Contains(imported[dir], to) {
				imported[dir] = append(imported[dir], to)
			}
		}
	})
	return imported, lines
}

func TestRoomsCatch(t *testing.T) {
	imported := map[string][]string{"lab": {"rig", "text"}, "rig": {"stack", "text"}, "stack": {"text"}}
	lines := map[string]int{"lab": 10, "rig": 20, "stack": 30, "text": 1, "shop": 100}
	for _, c := range []struct {
		of              string
		packages, lines int
		wrong           bool
	}{{"lab", 4, 61, false}, {"lab", 3, 61, true}, {"rig", 3, 50, true}, {"gone", 9, 99, true}} {
		needs, wrong := tooMuch(c.of, reading{c.packages, c.lines}, imported, lines)
		testkit.Is(t, wrong, c.wrong, "too much: %s", needs)
	}
	d := draw(map[string][]string{"a/x": {"b"}, "b": {"c/y", "c/z"}, "c/z": {"a/y"}, "a/y": {}}, plans[0].room)
	testkit.Same(t, d.floor, map[string]int{"a": 3, "b": 2, "c": 1}, "floors")
	testkit.Same(t, d.up, []string{"c -> a"}, "arrows that run up")
}

// TestRooms keeps the closures and the floors, and prints them.
func TestRooms(t *testing.T) {
	imported, lines := outsideTests(t)
	for _, p := range plans {
		d, arrows := draw(imported, p.room), 0
		for _, room := range slices.Sorted(maps.Keys(d.arrows)) {
			arrows += len(d.arrows[room])
			t.Logf("floor %d: %s -> %s", d.floor[room], room, strings.Join(d.arrows[room], " "))
		}
		t.Logf("%s: %d rooms, %d floors, %d arrows, %d of them up: %s", p.name, len(d.arrows),
			slices.Max(slices.Collect(maps.Values(d.floor))), arrows, len(d.up), strings.Join(d.up, ", "))
		testkit.Is(t, len(d.up), p.up, "arrows that run up in the %s", p.name)
	}
	for _, of := range slices.Sorted(maps.Keys(products)) {
		needs, wrong := tooMuch(of, products[of], imported, lines)
		t.Log(needs)
		testkit.Is(t, wrong, false, "too much: %s", needs)
	}
}
