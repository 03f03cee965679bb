package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"lastitem/bench/figure"
	"lastitem/docs"
)

// measured is a part of what a run wrote as JSON.
type measured struct {
	Facts struct {
		facts
	} `json:"environment"`
	Settings  settings `json:"settings"`
	Scenarios []struct {
		Name    string `json:"name"`
		Results []struct {
			Row     string              `json:"row"`
			Verdict string              `json:"verdict"`
			Median  map[string]*float64 `json:"median"`
		} `json:"results"`
	} `json:"scenarios"`
}

// costs are the words of the table.
var costs = map[string]struct{ head, seen string }{
	"en": {"| mode | orders/s | replica, µs | stores, µs | refusals/s | replica, µs | stores, µs | nginx, µs |\n",
		"%d clients, one product, medians of %d rounds; CPU time in microseconds per answer. One replica without a " +
			"balancer; the column nginx is from three replicas behind it. `–`: not measured, or the mode sold wrongly.\n\n" +
			"%s, %d cores, %s; %s; commit %s, %s.\n"},
	"zh": {"| 模式 | 成交/秒 | 副本，微秒 | 存储，微秒 | 拒绝/秒 | 副本，微秒 | 存储，微秒 | nginx，微秒 |\n",
		"%d 个客户端，一个商品，%d 轮取中位数；CPU 时间按每个应答计，单位微秒。单副本、不经负载均衡；nginx 一列取自三个副本。`–`：没测，或卖错了。\n\n" +
			"%s，%d 核，%s；%s；提交 %s，%s。\n"},
}

// writeCosts writes the block costs of speed.md below dir, in both languages, from the JSON of a run.
func writeCosts(dir, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var m measured
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("%s is no result of %s: %w", file, self, err)
	}
	for lang, words := range costs {
		block := words.head + "| --- |" + strings.Repeat(" --: |", 7) + "\n"
		for _, row := range m.rows() {
			block += "| `" + row + "`"
			for _, c := range []struct {
				scenario, measure string
			}{{direct, mRate}, {direct, mShopCPU}, {direct, mStoreCPU}, {refusals, mRate}, {refusals, mShopCPU},
				{refusals, mStoreCPU}, {balanced, mEdgeCPU}} {
				block += " | " + m.cell(c.scenario, row, c.measure)
			}
			block += " |\n"
		}
		f := m.Facts
		block += "\n" + fmt.Sprintf(words.seen, m.Settings.Clients, m.Settings.Rounds, f.CPU, f.Cores, f.Go,
			strings.Join(f.Servers, "; "), f.Commit, f.Date)
		name := filepath.Join(dir, docs.Name("speed", lang))
		page, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		filled, err := docs.Fill(string(page), "costs", block)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(name, []byte(filled), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// rows are the modes that sold rightly on one replica, in the order of the run.
func (m measured) rows() (rows []string) {
	for _, s := range m.Scenarios {
		for _, r := range s.Results {
			if s.Name == direct && (r.Verdict == verdicts[exact] || r.Verdict == verdicts[none]) {
				rows = append(rows, r.Row)
			}
		}
	}
	return rows
}

// cell is one number.
func (m measured) cell(scenario, row, measure string) string {
	for _, s := range m.Scenarios {
		for _, r := range s.Results {
			v := r.Median[measure]
			if s.Name != scenario || r.Row != row || v == nil || *v == 0 ||
				r.Verdict != verdicts[exact] && r.Verdict != verdicts[none] || s.Name == refusals && row == baseline {
				continue
			}
			if measure == mRate {
				return strconv.FormatFloat(*v, 'f', 0, 64)
			}
			return figure.Short(figure.Number(*v))
		}
	}
	return "–"
}
