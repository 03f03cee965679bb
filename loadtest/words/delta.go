package words

// deltaTexts are the texts of the comparison of two load tests.
func deltaTexts(lang string) map[string]string {
	if lang == "zh" {
		return deltaZh
	}
	return deltaEn
}

var deltaEn = map[string]string{
	"delta title": "%s against %s", "delta a": "A: %s, %s, lastitem %s", "delta b": "B: %s, %s, lastitem %s",
	"delta environments": "The environments differ, so a difference need not come from the code: ", "delta plans": "The plans differ, so the figures mean different things: ",
	"delta differs": "%s: %s in A, %s in B", "delta partial": "%s was interrupted: its figures are partial.",
	"delta verdict": "%s: %s in A, %s in B", "delta same verdicts": "The verdicts are the same.",
	"delta only a": "only in A: %s", "delta only b": "only in B: %s", "delta figures": "Figures", "delta effects": "B against A", "delta effects unit": "The difference as a share of A, with its 95% interval; the line in the middle means no difference. For a rate, right is better; for a latency, left is.",
	"col figure": "figure", "col a": "A: median\n(95% interval)", "col b": "B: median\n(95% interval)", "col difference": "B against A\n(95% interval)", "col p": "p",
	"col n": "samples\nA+B", "col outcome": "outcome",
	"outcome better": "B is better", "outcome worse": "B is worse", "outcome no difference shown": "no difference shown", "outcome too few samples": "too few samples", "outcome no samples": "no samples", "outcome unlike windows": "unlike windows",
	"delta rounds":  "A sample is one run: its rate, or its percentile.",
	"delta windows": "If a side has fewer than %d runs, or with --samples windows, a sample is one window within a run. Windows of one run resemble each other, so the intervals are too narrow, and two runs of the same program may differ as much: repeat with --repeat 6 for samples that are runs.",
	"delta noisy":   "%s: %d of %d runs noisy, so the speeds are unreliable: %s",
	"delta unlike":  "The windows of a longer run are longer, and a percentile of a longer window has more answers: p50 and p99 of windows of different lengths are not compared. Repeat with --repeat 6 for samples that are runs.",
	"delta range":   "A range in square brackets is no 95% interval: fewer than 6 samples have none for their median.",
	"delta many":    "%d [figure was|figures were] compared. If nothing differed at all, about %d of them would show a difference by chance.",
	"delta nothing": "No figure has enough samples on both sides: each needs %d.", "delta none": "There is no mode, plan and store that both have.",
	"delta alike": "No difference is shown (figures: %d).",
	"delta shown": "%d of %d [figure|figures] shown to differ: %d better, %d worse in B.",
}

var deltaZh = map[string]string{
	"delta title": "%s 相对 %s", "delta a": "A：%s，%s，lastitem %s", "delta b": "B：%s，%s，lastitem %s",
	"delta environments": "两边环境不同，差异不一定来自代码：", "delta plans": "两边计划不同，数字的含义不同：",
	"delta differs": "%s：A 为 %s，B 为 %s", "delta partial": "%s 被中断：数据不完整。",
	"delta verdict": "%s：A 为%s，B 为%s", "delta same verdicts": "判定相同。",
	"delta only a": "只在 A 中：%s", "delta only b": "只在 B 中：%s", "delta figures": "指标", "delta effects": "B 相对 A", "delta effects unit": "差异占 A 的比例及其 95% 区间；中线表示没有差异。每秒成交数越靠右越好，延迟越靠左越好。",
	"col figure": "指标", "col a": "A：中位数\n（95% 区间）", "col b": "B：中位数\n（95% 区间）", "col difference": "B 相对 A\n（95% 区间）", "col p": "p",
	"col n": "样本数\nA+B", "col outcome": "结论",
	"outcome better": "B 更好", "outcome worse": "B 更差", "outcome no difference shown": "看不出差异", "outcome too few samples": "样本太少", "outcome no samples": "没有样本", "outcome unlike windows": "窗口不等长",
	"delta rounds":  "一个样本是一轮运行的每秒成交数或百分位。",
	"delta windows": "有一边不足 %d 轮，或用了 --samples windows 时，一个样本是一轮运行中的一个窗口。同一轮的窗口彼此相似，区间偏窄；同一程序的两轮运行也可能差这么多。要以轮为样本，请用 --repeat 6 重跑。",
	"delta noisy":   "%s：%d/%d 轮有干扰，速度不可信：%s",
	"delta unlike":  "运行越长，窗口也越长，一个窗口里的应答就越多，百分位的含义随之不同：窗口不等长时不比较 p50 和 p99。要以轮为样本，请用 --repeat 6 重跑。",
	"delta range":   "方括号中的范围不是 95% 区间：不足 6 个样本时中位数没有区间。",
	"delta many":    "共比较 %d 个指标。即使毫无差异，也会有约 %d 个偶然显出差异。",
	"delta nothing": "没有一个指标在两边都有足够的样本：每边至少 %d 个。", "delta none": "没有两边共有的模式、计划和存储。",
	"delta alike": "%d 个指标都看不出差异。",
	"delta shown": "%d/%d 个指标有差异：B 更好 %d 个，更差 %d 个。",
}
