package words

// pageTexts are the texts of the reports that are pages.
func pageTexts(lang string) map[string]string {
	if lang == "zh" {
		return pageZh
	}
	return pageEn
}

var pageEn = map[string]string{
	"page title one": "Load test of %s", "page title several": "Load test of %d modes",
	"page exact": "The stock was deducted exactly.", "page inexact": "The stock was not deducted exactly.",
	"page held": "Every claim held.", "page contradicted": "A claim does not hold.", "page crossed": "A threshold was crossed.",
	"page undecided": "Something could not be decided.", "page interrupted": "Interrupted: the figures are partial.",
	"page verdicts": "Verdicts", "page thresholds": "Thresholds", "page threshold": "threshold", "page measured": "measured", "page outcome": "outcome",
	"page kept": "✓ kept", "page not kept": "✗ crossed", "page speeds": "Speed", "page modes": "Mode by mode", "page mode": "The run",
	"page environment": "Environment", "page again": "How to repeat it", "page table": "the numbers as a table",
	"page rates": "Accepted per second", "page rates unit": "Median of the runs; the thin line is their range. Bars of broken modes are red, of undecided ones amber.",
	"page latencies": "Response time of accepted requests", "page latencies unit": "Milliseconds. The bar runs from p50 to p99, the mark is p95; the scale is logarithmic. Values: p50 / p95 / p99.",
	"page curve": "Distribution of response times", "page curve unit": "Accepted requests. Across: the percentage that was at least this fast; up: milliseconds.",
	"page curve desc": "The median is %s ms, p99 is %s ms, the slowest request took %s ms.", "page curves desc": "One line for each mode: %s.",
	"page over time": "Response time over the run", "page over time unit": "Accepted requests, in windows of %s. Across: seconds since the start; up: milliseconds.",
	"page over time desc": "p99 is between %s and %s ms.", "page logarithmic": " Logarithmic.",
	"page answers": "Answers over the run", "page answers unit": "Answers per second, in windows of %s. Across: seconds since the start.",
	"page answers desc": "At most %s accepted per second, and %s refused.",
	"page second":       "second", "page percentile": "percentile", "page shown": "Shown is repetition %d of %d, the one that decides the verdict.",
	"page time": "time", "page version": "lastitem", "page go": "Go", "page machine": "machine", "page cores": "%d [core|cores], GOMAXPROCS %d", "page servers": "servers",
	"page replicas": "replicas", "page plan": "plan", "page seed": "seed", "page plan json": "the whole plan as JSON",
	"page commit": "git checkout %s", "page dirty": "The binary was built from %s with changes that are not committed.",
	"page unversioned": "The binary does not know the commit that it was built from.", "page token": "The admin token is read from SHOP_ADMIN_TOKEN; passwords are written ***.",
	"page noise": "Reasons not to trust the speeds", "page open": "Open a mode to see its course over time, its distribution and its latencies.",
}

var pageZh = map[string]string{ //nolint:gosec // the word "token" beside long texts
	"page title one": "%s 压测报告", "page title several": "%d 个模式的压测报告",
	"page exact": "库存扣减精确。", "page inexact": "库存扣减不精确。",
	"page held": "所有声明都成立。", "page contradicted": "有声明不成立。", "page crossed": "有阈值被突破。",
	"page undecided": "有结果无法判定。", "page interrupted": "已中断：数据不完整。",
	"page verdicts": "判定", "page thresholds": "阈值", "page threshold": "阈值", "page measured": "实测", "page outcome": "结果",
	"page kept": "✓ 满足", "page not kept": "✗ 突破", "page speeds": "速度", "page modes": "逐个模式", "page mode": "运行详情",
	"page environment": "环境", "page again": "如何复现", "page table": "以表格显示数值",
	"page rates": "每秒成交", "page rates unit": "各轮的中位数；细线是各轮的范围。出错的模式为红色，未定的为琥珀色。",
	"page latencies": "成交请求的响应时间", "page latencies unit": "毫秒，条形从 p50 到 p99，竖线是 p95；对数刻度。数值：p50 / p95 / p99。",
	"page curve": "响应时间分布", "page curve unit": "只含成交的请求。横轴：不慢于该值的请求占比；纵轴：毫秒。",
	"page curve desc": "中位数 %s 毫秒，p99 为 %s 毫秒，最慢的请求 %s 毫秒。", "page curves desc": "每个模式一条线：%s。",
	"page over time": "响应时间随时间的变化", "page over time unit": "只含成交的请求，每个窗口 %s。横轴：开始后的秒数；纵轴：毫秒。",
	"page over time desc": "p99 在 %s 到 %s 毫秒之间。", "page logarithmic": "对数刻度。",
	"page answers": "应答随时间的变化", "page answers unit": "每秒应答数，每个窗口 %s。横轴：开始后的秒数。",
	"page answers desc": "每秒成交最多 %s 个，每秒拒绝最多 %s 个。",
	"page second":       "秒", "page percentile": "百分位", "page shown": "图中是第 %d 轮（共 %d 轮），判定取自这一轮。",
	"page time": "时间", "page version": "lastitem", "page go": "Go", "page machine": "机器", "page cores": "%d 核，GOMAXPROCS %d", "page servers": "服务端",
	"page replicas": "副本数", "page plan": "计划", "page seed": "随机种子", "page plan json": "完整计划（JSON）",
	"page commit": "git checkout %s", "page dirty": "程序由 %s 构建，另有未提交的改动。",
	"page unversioned": "程序不知道自己由哪个提交构建。", "page token": "管理令牌取自 SHOP_ADMIN_TOKEN；密码写作 ***。",
	"page noise": "速度不可全信的原因", "page open": "展开一个模式，查看运行过程、分布和延迟。",
}
