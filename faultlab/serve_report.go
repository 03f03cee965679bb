package faultlab

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"lastitem/internal/api"
)

// serveWords are the words of the report on a service that is not ours, by language.
type serveWords struct {
	fault, found, tried         string
	breaks, holds, wrong, locks string
	never                       string
	letters                     map[byte]string
}

var serveTexts = map[string]serveWords{
	"en": {
		fault: "fault", found: "found", tried: "schedules", breaks: "\nWhat breaks it, and where first:\n",
		holds: "\nNothing broke it: no schedule sold too much, lost stock, charged twice or got stuck.\n",
		wrong: "\nWhat proved nothing:\n", locks: "\nLocks seen in Redis while a request was held: %s\n", never: "%s (never expires)",
		letters: map[byte]string{
			'O': "oversold, or an update was lost", 'L': "leaked: stock is gone without an order", 'D': "one key was charged twice",
			'X': "stuck: nobody is served any more", 'A': "an acknowledged order is lost", '!': "the answers contradict the ledger",
		},
	},
	"zh": {
		fault: "故障", found: "结果", tried: "调度数", breaks: "\n什么会打破它，最先在哪里：\n",
		holds: "\n没有打破：没有一个调度超卖、漏掉库存、重复扣款或卡死。\n",
		wrong: "\n没能证明什么的调度：\n", locks: "\n请求被停住时 Redis 里看到的锁：%s\n", never: "%s（永不过期）",
		letters: map[byte]string{
			'O': "超卖，或丢失更新", 'L': "少卖：库存没了，却没有订单", 'D': "同一个幂等键扣了两次",
			'X': "卡死：再也没有人能下单", 'A': "已确认的订单丢了", '!': "答复与账本矛盾",
		},
	},
}

// WriteServe writes the report on a service that is not ours: what was tried, what broke it and where, and the locks that were seen.
func (r *Result) WriteServe(w io.Writer, lang string) error {
	t := serveTexts[lang]
	var b strings.Builder
	b.WriteString(pad(t.fault, 12) + pad(t.found, 8) + t.tried + "\n")
	for _, c := range r.Cells {
		b.WriteString(pad(string(c.Fault), 12) + pad(string(c.Found), 8) + fmt.Sprint(c.Tried) + "\n")
	}
	if r.Broken() == 0 {
		b.WriteString(t.holds)
	} else {
		b.WriteString(t.breaks)
	}
	for _, c := range r.Cells {
		for _, letter := range slices.SortedFunc(maps.Keys(c.Witnesses), byLetter) {
			fmt.Fprintf(&b, "  %s %s  %s\n      %s\n", pad(string(c.Fault), 10), letter, t.letters[letter[0]], c.Witnesses[letter].where())
		}
	}
	title := t.wrong
	for _, c := range r.Cells {
		for _, why := range c.Wrong {
			b.WriteString(title + "  " + why + "\n")
			title = ""
		}
	}
	if len(r.Leases) > 0 {
		var all []string
		for _, x := range r.Leases {
			if x.TTL == 0 {
				all = append(all, fmt.Sprintf(t.never, x.Key))
			} else {
				all = append(all, fmt.Sprintf("%s (%v)", x.Key, x.TTL))
			}
		}
		fmt.Fprintf(&b, t.locks, strings.Join(all, ", "))
	}
	r.writeCounts(&b, reportWords[lang])
	_, err := io.WriteString(w, b.String())
	return err
}

func byLetter(a, b string) int { return strings.Index(letters, a) - strings.Index(letters, b) }

// where is a schedule without the name of the mode.
func (s Schedule) where() string {
	_, where, _ := strings.Cut(s.String(), ", "+string(s.Fault))
	return strings.TrimSpace(strings.TrimPrefix(where, ","))
}

// ServeLine says on one line what was found about a cell of such a service.
func (c Cell) ServeLine(lang string) string {
	line := pad(string(c.Fault), 12) + pad(string(c.Found), 8) + fmt.Sprint(c.Tried)
	if n := len(c.Wrong); n > 0 {
		line += fmt.Sprintf(" (%s %d)", strings.Trim(serveTexts[lang].wrong, "\n:："), n)
	}
	return line + "\n"
}

// Exact says that nothing broke, and that every schedule proved something.
func (r *Result) Exact() bool {
	return !slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Found != api.Exact || len(c.Wrong) > 0 })
}
