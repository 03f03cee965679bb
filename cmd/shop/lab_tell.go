package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"lastitem/faultlab"
	"lastitem/faultlab/fault"
	"lastitem/faultlab/tell"
	"lastitem/say/text"
)

// tellWitnesses plays the committed witnesses that a directory has no story of, and writes their stories to it.
func tellWitnesses(cmd *cobra.Command, f *labFlags, o faultlab.Options) error {
	matrix, err := faultlab.Committed()
	if err != nil {
		return err
	}
	known, err := tell.ReadTales(os.DirFS(f.tell))
	if err != nil {
		return fmt.Errorf("%s: %w", f.tell, err)
	}
	told := map[string]bool{}
	for _, t := range known {
		told[t.Schedule] = true
	}
	o.Witness = func(s faultlab.Schedule) bool { return !told[s.String()] }
	o.Stories, o.Progress = true, nil // a cell of which one witness is played is not judged
	if o.Faults == nil {
		o.Faults = fault.Names()
	}
	var played []faultlab.Played
	if slices.ContainsFunc(matrix.Witnesses(), func(w faultlab.Witness) bool { return o.Witness(w.Schedule) }) {
		res, err := faultlab.Explore(cmd.Context(), o)
		if err != nil {
			return err
		}
		played = res.Played
	}
	all, failed := tell.Retell(matrix, known, played)
	if err := tell.WriteTales(f.tell, all); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), text.Of("witnesses with a story: %d of %d\n").In(f.lang), len(all),
		len(matrix.Witnesses()))
	return failed
}
