package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"lastitem/faultlab"
	"lastitem/internal/localstack"
	"lastitem/internal/stock"
)

// replayLab plays the worst schedule of a file again, and fails if the outcome is not the one in the file.
func replayLab(cmd *cobra.Command, f *labFlags, o faultlab.Options) error {
	text, err := os.ReadFile(f.replay)
	if err != nil {
		return usage(both("--replay: %w", "--replay：%w"), err)
	}
	told, err := storyOf(text)
	if err != nil {
		return usage(both("--replay %s: %w", "--replay %s：%w"), f.replay, err)
	}
	if o.Extras = labExtras([]string{told.Worst.Schedule.Mode}, o.Log); told.Serve != nil {
		if o.Serve, err = equip(told.Serve); err != nil {
			return err
		}
		if !cmd.Flags().Changed("lanes") {
			o.Lanes = defaultServeLanes
		}
	}
	if told.TTL > 0 {
		o.TTL = told.TTL
	}
	played, err := faultlab.Replay(cmd.Context(), o, told.Worst.Schedule, f.times)
	if err != nil {
		return err
	}
	same := 0
	for _, p := range played {
		if p.Outcome == told.Worst.Outcome {
			same++
			continue
		}
		if err := p.Write(cmd.OutOrStdout(), f.lang); err != nil {
			return err
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s %d/%d\n", told.Worst.Schedule, told.Worst.Outcome, same, len(played))
	if same < len(played) {
		return &exitError{code: exitFailed, err: both("the replay did not always show what the story tells", "重放的结果并非每次都与故事一致").Errorf()}
	}
	return nil
}

// storyOf reads a file for --replay and checks that its schedule can be played.
func storyOf(text []byte) (told faultlab.Result, err error) {
	if err := json.Unmarshal(text, &told); err != nil {
		return told, both("is no JSON as 'shop lab --mode M --fault F -o json' writes it: %w", "不是 'shop lab --mode M --fault F -o json' 写出的 JSON：%w").Errorf(err)
	}
	if told.Worst == nil {
		return told, both("has no schedule in \"worst\": 'shop lab -o json' writes it if one mode and one fault are selected", "\"worst\" 里没有调度：只选一个模式和一种故障时，'shop lab -o json' 才会写").Errorf()
	}
	s := told.Worst.Schedule
	if told.Serve == nil && !slices.ContainsFunc(stock.Modes(), func(m stock.Mode) bool { return m.Name == s.Mode }) {
		return told, both("unknown mode %q", "没有模式 %q").Errorf(s.Mode)
	}
	return told, s.Check()
}

// updateMatrix merges the explored cells into the file.
func updateMatrix(file string, res *faultlab.Result) error {
	var known faultlab.Matrix
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &known); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	merged, err := known.Merge(res.Cells, res.Order).JSON()
	if err != nil {
		return err
	}
	return os.WriteFile(file, merged, 0o644) //nolint:gosec // a file of the repository
}

// writeMatrixPages renders the committed matrix.
func writeMatrixPages(dir string) error {
	matrix, err := faultlab.Committed()
	if err != nil {
		return err
	}
	modes, err := registry()
	if err != nil {
		return err
	}
	for lang, name := range map[string]string{"en": "matrix.md", "zh": "matrix.zh.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(matrix.Markdown(lang, modes)), 0o644); err != nil { //nolint:gosec // a page of the repository
			return err
		}
	}
	return nil
}

// labExtras are the services that the modes need and that are installed; nil modes are all.
func labExtras(modes []string, log func(string, ...any)) []string {
	var extras []string
	for _, name := range []string{localstack.Redlock, localstack.Etcd, localstack.ZooKeeper, localstack.Consul} {
		if !slices.ContainsFunc(stock.Modes(), func(m stock.Mode) bool {
			return slices.Contains(m.Needs, stock.Backend(name)) && (modes == nil || slices.Contains(modes, m.Name))
		}) {
			continue
		}
		if _, err := localstack.Find(name); err != nil {
			log("%s: its modes are left out: %v", name, err)
			continue
		}
		extras = append(extras, name)
	}
	return extras
}
