package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lastitem/bench/figure"
	"lastitem/docs"
)

// words are those of the table in docs/speed.md, by language.
var words = map[string]struct{ head, seen string }{
	"en": {"| mode | orders/s | replica, µs | stores, µs | refusals/s | replica, µs | stores, µs | nginx, µs |\n",
		"%d clients, one product, medians of %d rounds; CPU time in microseconds per answer. One replica without a " +
			"balancer; the column nginx is from three replicas behind it. `–`: not measured, or the mode sold wrongly.\n\n" +
			"%s, %d cores, %s; %s; commit %s, %s.\n"},
	"zh": {"| 模式 | 成交/秒 | 副本，微秒 | 存储，微秒 | 拒绝/秒 | 副本，微秒 | 存储，微秒 | nginx，微秒 |\n",
		"%d 个客户端，一个商品，%d 轮取中位数；CPU 时间按每个应答计，单位微秒。单副本、不经负载均衡；nginx 一列取自三个副本。`–`：没测，或卖错了。\n\n" +
			"%s，%d 核，%s；%s；提交 %s，%s。\n"},
}

// writePages writes the block costs of speed.md below dir, in both languages.
func (m costs) writePages(dir string) error {
	for lang, words := range words {
		block := words.head + "| --- |" + strings.Repeat(" --: |", 7) + "\n"
		for _, r := range m.rows {
			if r.plan != direct || !r.quoted() {
				continue
			}
			block += "| `" + r.mode + "`"
			for _, c := range []struct{ plan, measure string }{{direct, rate}, {direct, replicas}, {direct, stores},
				{refusals, rate}, {refusals, replicas}, {refusals, stores}, {balanced, balancer}} {
				block += " | " + m.cell(r.mode, c.plan, c.measure)
			}
			block += " |\n"
		}
		e := m.Environment
		block += "\n" + fmt.Sprintf(words.seen, m.Plans[0].VUs, m.Plans[0].Repeat, e.CPU, e.CPUs, e.Go,
			strings.Join(m.servers(), "; "), e.Version, e.Time.UTC().Format(time.RFC3339))
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

// cell is one number.
func (m costs) cell(mode, plan, measure string) string {
	r := m.of(mode, plan)
	switch n := r.median.Of(measure); {
	case !r.quoted() || !n.Known() || n == 0 || plan == refusals && mode == baseline:
		return "–"
	case measure == rate:
		return strconv.FormatFloat(float64(n), 'f', 0, 64)
	default:
		return figure.Short(n)
	}
}
