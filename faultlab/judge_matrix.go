package faultlab

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"lastitem/contract/api"
)

// Matrix holds the known results for every mode and fault: the cells of a whole exploration, without times.
type Matrix struct {
	Cells []Cell `json:"cells"`
}

//go:embed matrix.json
var committed []byte

// Committed is the matrix that this binary was built with.
func Committed() (Matrix, error) {
	var m Matrix
	if err := json.Unmarshal(committed, &m); err != nil {
		return m, fmt.Errorf("faultlab: matrix.json: %w", err)
	}
	return m, nil
}

// Cell returns the cell of a mode, store and fault.
func (m Matrix) Cell(mode string, store api.Store, fault api.Hazard) (Cell, bool) {
	for _, c := range m.Cells {
		if c.Mode == mode && c.Store == store && c.Fault == fault {
			return c, true
		}
	}
	return Cell{}, false
}

// Merge replaces the cells that were explored and keeps the others, in the order of the modes.
func (m Matrix) Merge(explored []Cell, order []Cell) Matrix {
	var merged Matrix
	for _, o := range order {
		c, there := Matrix{Cells: explored}.Cell(o.Mode, o.Store, o.Fault)
		if !there || c.Found == "" { // or of which nothing could be judged
			if known, ok := m.Cell(o.Mode, o.Store, o.Fault); ok {
				c, there = known, true
			}
		}
		if c.BlockedFor = 0; there { // a time differs from run to run
			merged.Cells = append(merged.Cells, c)
		}
	}
	return merged
}

// JSON returns the matrix in the format of the committed file.
func (m Matrix) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", " ")
	return append(text, '\n'), err
}

// UpdateMatrix merges the explored cells into the matrix of a file.
func UpdateMatrix(file string, res *Result) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var known Matrix
	if err := json.Unmarshal(text, &known); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	merged, err := known.Merge(res.Cells, res.Order).JSON()
	if err != nil {
		return err
	}
	return os.WriteFile(file, merged, 0o644)
}

// witnesses lists the schedules that show a cell's letters, in their order.
func (c Cell) witnesses() []Schedule {
	var all []Schedule
	for _, letter := range slices.Sorted(maps.Keys(c.Witnesses)) {
		if s := c.Witnesses[letter]; !slices.ContainsFunc(all, func(x Schedule) bool { return x.String() == s.String() }) {
			all = append(all, s)
		}
	}
	return all
}

// Witness is a committed schedule with the letters that it stands for.
type Witness struct {
	Schedule Schedule
	Letters  string
}

// Witnesses returns the witnesses of all cells, in the order of the cells. One schedule may stand for several letters.
func (m Matrix) Witnesses() []Witness {
	var all []Witness
	for _, c := range m.Cells {
		for _, s := range c.witnesses() {
			w := Witness{Schedule: s}
			for _, letter := range Letters {
				if x, there := c.Witnesses[string(letter)]; there && x.String() == s.String() {
					w.Letters += string(letter)
				}
			}
			all = append(all, w)
		}
	}
	return all
}

// Shows says whether an outcome has all letters that the witness stands for.
func (w Witness) Shows(o api.Outcomes) bool {
	for _, letter := range w.Letters {
		if !strings.ContainsRune(string(o), letter) {
			return false
		}
	}
	return w.Letters != ""
}
