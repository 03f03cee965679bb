// Package words has the texts of the reports in every language, by key.
package words

import (
	"lastitem/internal/api"
	"lastitem/internal/audit"
)

// Languages lists the languages that reports are written in.
var Languages = []string{"en", "zh"}

// Say returns the text of key in lang with args filled in. An unknown language is English; an unknown key is returned itself, so that a
// forgotten text shows in the output.
func Say(lang, key string, args ...any) string {
	texts, ok := messages[lang]
	if !ok {
		texts = messages["en"]
	}
	format, ok := texts[key]
	if !ok {
		format, ok = pageTexts(lang)[key]
	}
	if !ok {
		return key
	}
	if len(args) == 0 {
		return format
	}
	return api.Sprintf(format, args...)
}

// ClaimText describes a claim: exact, or the letters of its outcomes.
func ClaimText(lang string, claim api.Outcomes) string {
	switch claim {
	case "":
		return "–"
	case api.Exact:
		return Say(lang, "exact")
	case api.NotApplicable:
		return string(claim)
	}
	return Say(lang, "breaks") + " " + string(claim)
}

// VerdictText describes a verdict, with the letters of the outcomes found.
func VerdictText(lang string, v audit.Verdict, found string) string {
	if v == "" {
		return "–"
	}
	text := Say(lang, string(v))
	if found != "" {
		text += " " + found
	}
	return text
}

// FindingMark returns the sign beside a claim, so that a finding never depends on colour alone.
func FindingMark(f audit.Finding) string {
	switch f {
	case audit.Confirmed:
		return "✓"
	case audit.Contradicted:
		return "✗"
	case audit.Undecided:
		return "?"
	}
	return ""
}

// messages holds every text of the table and the reports, by language. A \n in a column's head starts its second line.
var messages = map[string]map[string]string{
	"en": {
		"exact": "exact", "breaks": "breaks",
		"EXACT": "EXACT", "BROKEN": "BROKEN", "INCONCLUSIVE": "INCONCLUSIVE", "VACUOUS": "VACUOUS",
		"confirmed": "confirmed", "contradicted": "contradicted", "inconclusive": "undecided", "unclaimed": "no claim",

		"letter O": "O = oversold or lost update", "letter L": "L = leaked: stock gone without an order",
		"letter D": "D = double charge", "letter X": "X = stuck", "letter A": "A = acknowledged order lost",
		"legend marks": "✓ claim confirmed, ✗ contradicted, ? undecided",

		"col mode": "mode", "col claim": "claim", "col verdict": "verdict", "col stock": "stock\nbefore/after",
		"col sold": "sold\n(orders)", "col oversold": "over-\nsold", "col lost": "lost\nupdates", "col leaked": "leaked",
		"col sold out": "sold\nout", "col busy": "busy", "col unknown": "unknown", "col accepted/s": "accepted\n/s",
		"col latency": "p50/p95/p99\naccepted, ms", "col replicas": "served by\neach replica",

		"evidence sep":   "; ",
		"evidence units": "+%d more such [unit|units] in the JSON",
		"tries":          "this is run %d; the earlier ones were exact",
		"violation":      "violation: %s", "missing": "missing: %s", "other codes": "other answers: %s", "more lines": "+%d more", "noise busy": "other programs used %.2f cores just before the load", "noise stolen": "other virtual machines took %.2f cores away during it (steal)",
		"noise dropped": "%d [arrival was|arrivals were] dropped: %d [request was|requests were] in flight", "noise late": "the load generator sent late: 1%% of the requests more than %v after their time",
		"discounted drops": "%d of %d arrivals (%.1f%%) were dropped, more than %.0f%%: %d [request was|requests were] in flight, so the load was not the planned one, and the latencies are those of the sent requests; lower --rate, or raise --max-in-flight",
		"discounted":       "does not count: %s, repetition %d: %s",
		"extra":            "%d [request|requests] more than planned were sent, because none had been refused as sold out",
		"noisy":            "noisy: %s", "noisy rows": "noisy: %d of %d rows: %s",

		"all confirmed":  "confirmed: %d of %d [claim|claims] %s",
		"on one":         "on one replica (hazard: threads)",
		"on several":     "over %d replicas (hazard: replicas)",
		"contradiction":  "contradicted: %s claims %s, seen: %s",
		"undecided":      "undecided: %s: %s",
		"baseline":       "baseline: %s claims nothing; it answered %d of %d [request|requests]",
		"unclaimed mode": "no claim: %s, seen: %s",
		"skipped":        "skipped: %s: %s",
		"run failed":     "failed: %s, repetition %d: %s",
		"crossed":        "threshold crossed: %s: %s is %s",
		"interrupted":    "interrupted: the figures are partial",
		"no claims":      "no claim was checked",
		"no claim made":  "a service that is not lastitem makes no claim; it is judged all the same",
		"runs":           "k/n beside a verdict: k of n runs ended so, and the counts of the row are those of one of them",
		"repetitions":    "speeds are medians of %d [repetition|repetitions]",

		"plan each": "%d [client|clients] × %d [request|requests]", "plan total": "%d [client|clients], %d [request|requests] in all", "plan for": "%d [client|clients] for %s",
		"plan rate": "%s arrivals/s for %s", "plan stages": "arrivals/s in stages %s", "plan empty": "no load",
		"plan stock": "stock %d", "plan quantity": "quantity %d", "plan products": "%d [product|products]", "plan segments": "%d [segment|segments]",
		"plan wait": "wait %s", "plan engine": "engine %s", "plan replica": "1 replica", "plan replicas": "%d replicas", "plan rtt": "round trip %s", "plan retry": "up to %d [retry|retries]", "list sep": ", ",

		"col label": "label", "col samples": "samples", "col mean": "mean", "col median": "p50", "col p90": "p90", "col p95": "p95",
		"col p99": "p99", "col p99.9": "p99.9", "col min": "min", "col max": "max", "col error": "error %", "col throughput": "per second",

		"row accepted": "accepted", "row refused": "refused", "row failed": "failed", "row total": "total",
		"response time": "response time, ms (from the intended start to the last byte)",
		"service time":  "service time, ms (from the send to the last byte)",
		"lag":           "schedule lag, ms (open loop: send minus intended start)", "row lag": "lag",
		"report title":    "%s on %s, repetition %d: %s",
		"report requests": "requests: %d sent, %d of them [a retry|retries], %d dropped, in %s: %s/s",
		"report accepted": "accepted: %s/s to the last acceptance, after %s",
		"report codes":    "codes: %s", "report served": "served by: %s",
		"report series":  "accepted per second, over the run: %s (peak %d)",
		"report verdict": "verdict: %s", "report product": "verdict on product %d: %s", "report products": "+%d more [product|products], none of them worse", "report claim": "claim: %s: %s", "report partial": "partial: interrupted before the end",
		"report counts":      "stock %d to %d, sold %d in %d [order|orders], oversold %d, lost updates %d, leaked %d",
		"report environment": "%s, %s/%s, %s × %d, GOMAXPROCS %d, lastitem %s",
	},
	"zh": {
		"exact": "精确", "breaks": "出错",
		"EXACT": "精确", "BROKEN": "出错", "INCONCLUSIVE": "无法判定", "VACUOUS": "无效",
		"confirmed": "符合声明", "contradicted": "与声明矛盾", "inconclusive": "未定", "unclaimed": "无声明",

		"letter O": "O = 超卖或丢失更新", "letter L": "L = 少卖（泄漏）：库存已扣，没有订单",
		"letter D": "D = 重复扣减", "letter X": "X = 卡死", "letter A": "A = 已确认的订单丢失",
		"legend marks": "✓ 符合声明，✗ 与声明矛盾，? 未定",

		"col mode": "模式", "col claim": "声明", "col verdict": "判定", "col stock": "库存\n前/后",
		"col sold": "成交\n(订单)", "col oversold": "超卖", "col lost": "丢失\n更新", "col leaked": "少卖\n(泄漏)",
		"col sold out": "售罄", "col busy": "锁忙", "col unknown": "未知", "col accepted/s": "成交/秒",
		"col latency": "p50/p95/p99\n成交, 毫秒", "col replicas": "各副本\n处理占比",

		"evidence sep":   "；",
		"evidence units": "JSON 中另有 %d 件",
		"tries":          "这是第 %d 次运行，之前各次都精确",
		"violation":      "违反：%s", "missing": "缺少：%s", "other codes": "其他应答：%s", "more lines": "另有 %d 条", "noise busy": "压测开始前别的程序占用了 %.2f 个核", "noise stolen": "压测中别的虚拟机拿走了 %.2f 个核（steal）",
		"noise dropped": "丢弃了 %d 次到达：在途请求已达 %d 个", "noise late": "压测工具发送偏晚：1%% 的请求比计划晚 %v 以上",
		"discounted drops": "%d/%d 次到达（%.1f%%）被丢弃，超过 %.0f%%：在途请求已达 %d 个，负载不是计划中的负载，延迟只是已发出请求的延迟；请降低 --rate 或提高 --max-in-flight",
		"discounted":       "不作数：%s，第 %d 轮：%s",
		"extra":            "多发了 %d 个请求：计划的请求发完时还没有人得到“售罄”的应答",
		"noisy":            "有干扰：%s", "noisy rows": "有干扰：%d/%d 行：%s",

		"all confirmed":  "符合声明：%d/%d 个%s",
		"on one":         "，单副本（场景：threads）",
		"on several":     "，%d 个副本（场景：replicas）",
		"contradiction":  "与声明矛盾：%s 声明%s，实测：%s",
		"undecided":      "未定：%s：%s",
		"baseline":       "基准：%s 不作声明；已应答 %d/%d 个请求",
		"unclaimed mode": "无声明：%s，实测：%s",
		"skipped":        "跳过：%s：%s",
		"run failed":     "失败：%s，第 %d 轮：%s",
		"crossed":        "超出阈值：%s：%s，实际为 %s",
		"interrupted":    "已中断：数据不完整",
		"no claims":      "没有可核对的声明",
		"no claim made":  "不是 lastitem 的服务没有声明，照样判定",
		"runs":           "判定后的 k/n：n 次运行中有 k 次是这个判定，该行的数量取其中一次",
		"repetitions":    "速度取 %d 轮的中位数",

		"plan each": "%d 个并发 × %d 次", "plan total": "%d 个并发，共 %d 次请求", "plan for": "%d 个并发，持续 %s",
		"plan rate": "每秒到达 %s 个，持续 %s", "plan stages": "每秒到达数分阶段 %s", "plan empty": "没有负载",
		"plan stock": "库存 %d", "plan quantity": "每次 %d 件", "plan products": "%d 种商品", "plan segments": "%d 段",
		"plan wait": "等锁 %s", "plan engine": "引擎 %s", "plan replica": "1 个副本", "plan replicas": "%d 个副本", "plan rtt": "往返 %s", "plan retry": "最多重试 %d 次", "list sep": "，",

		"col label": "标签", "col samples": "样本", "col mean": "平均值", "col median": "中位数", "col p90": "90%\n百分位", "col p95": "95%\n百分位",
		"col p99": "99%\n百分位", "col p99.9": "99.9%\n百分位", "col min": "最小值", "col max": "最大值", "col error": "异常 %", "col throughput": "吞吐量\n/秒",

		"row accepted": "成交", "row refused": "拒绝", "row failed": "失败", "row total": "总体",
		"response time": "响应时间，毫秒（从计划发送时刻到最后一个字节）",
		"service time":  "服务时间，毫秒（从实际发送到最后一个字节）",
		"lag":           "发送延迟，毫秒（开环压测：实际发送减去计划时刻）", "row lag": "延迟",
		"report title":    "%s，库存在 %s，第 %d 轮：%s",
		"report requests": "请求：发出 %d 个，其中重试 %d 个，丢弃 %d 个，用时 %s：%s/秒",
		"report accepted": "成交：%s/秒，计到最后一次成交，用时 %s",
		"report codes":    "应答：%s", "report served": "各副本处理：%s",
		"report series":  "每秒成交随时间：%s（峰值 %d）",
		"report verdict": "判定：%s", "report product": "商品 %d 的判定：%s", "report products": "另有 %d 种商品，都不比以上更差", "report claim": "声明：%s：%s", "report partial": "不完整：提前中断",
		"report counts":      "库存 %d 变为 %d，成交 %d 件 %d 个订单，超卖 %d，丢失更新 %d，少卖（泄漏）%d",
		"report environment": "%s，%s/%s，%s × %d，GOMAXPROCS %d，lastitem %s",
	},
}
