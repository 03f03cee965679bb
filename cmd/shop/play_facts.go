package main

import (
	manual "lastitem/docs"
	"lastitem/faultlab"
	"lastitem/internal/api"
	"lastitem/internal/book"
	"lastitem/internal/console"
)

// matrixPage is the body of GET /console/api/matrix.
type matrixPage struct {
	Hazards []faultlab.Hazard `json:"hazards"`
	Cells   []faultlab.Cell   `json:"cells"`
}

// witnessPage is the body of GET /console/api/witness: the cell and, where something broke it, the schedule with its recorded story.
type witnessPage struct {
	Cell     faultlab.Cell      `json:"cell"`
	Schedule *faultlab.Schedule `json:"schedule,omitempty"`
	Tale     *faultlab.Tale     `json:"tale,omitempty"`
}

// playFacts are the committed findings of the fault lab, and the documentation.
func playFacts() (console.Facts, error) {
	matrix, err := faultlab.Committed()
	if err != nil {
		return console.Facts{}, err
	}
	tales, err := faultlab.Tales()
	if err != nil {
		return console.Facts{}, err
	}
	pages, err := book.New(manual.Files())
	if err != nil {
		return console.Facts{}, err
	}
	byName := map[string]*faultlab.Tale{}
	for i, t := range tales {
		byName[t.Schedule] = &tales[i]
	}
	page := matrixPage{Hazards: faultlab.Hazards()}
	for _, c := range matrix.Cells {
		c.Witnesses = nil // one by one, with their stories
		page.Cells = append(page.Cells, c)
	}
	return console.Facts{Matrix: page, Book: pages, Witness: func(w console.Witness) (any, bool) {
		c, there := matrix.Cell(w.Mode, api.Store(w.Store), api.Hazard(w.Fault))
		if !there {
			return nil, false
		}
		found := witnessPage{Cell: c}
		found.Cell.Witnesses = nil
		if w.Letter == "" {
			return found, c.Found == api.Exact
		}
		s, there := c.Witnesses[w.Letter]
		if there {
			found.Schedule, found.Tale = &s, byName[s.String()]
		}
		return found, there
	}}, nil
}
