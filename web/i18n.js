// The words of the page, in both languages. A test holds the two lists against each other.
export const words = {
  en: {
    skip: "Skip to the content", run: "Run", compare: "Compare", matrix: "Matrix", read: "Read",
    language: "中文", dark: "Dark", light: "Light", connecting: "connecting …", lost: "connection lost, trying again", live: "live",
    sessionTitle: "This page needs the stack's token", sessionText: "Open the address that was printed at the start, or paste the token: it is the stack's SHOP_ADMIN_TOKEN.",
    token: "Token", open: "Open", wrongToken: "That is not the token of this stack.",
    unreachable: "the console does not answer", noPageNow: "This page cannot be shown now: {why}",
    mode: "Mode", filter: "Filter the modes", noMode: "No mode fits.", replicas: "Replicas", clients: "Clients", stock: "Stock",
    start: "Run", stop: "Stop", running: "Running …", starting: "Starting …", unavailable: "not available here",
    claims: "What it claims", breaks: "What breaks it", nothingBreaks: "Nothing that was tried.", essay: "Read about it",
    h_threads: "threads", h_replicas: "replicas", h_slow: "slow", h_late: "late", h_pause: "pause", h_crash: "crash", h_failover: "failover", h_retry: "retry", "h_late-write": "late write",
    O: "oversells", L: "loses stock", D: "charges twice", X: "gets stuck", A: "loses an order",
    exact: "exact", impossible: "cannot happen", earlier: "broken already", baseline: "A baseline: it touches no store and claims nothing.",
    emptyTitle: "Sell the last item", emptyText: "Choose a mode and press Run. {clients} [client asks|clients ask] for half as many units again as there are; the judge counts who got one.",
    left: "left in stock", sold: "sold", refused: "refused", overlaps: "overlaps", of: "of {n}", perSecond: "{n}/s accepted",
    sections: "of {n} [section|sections]", noSections: "no section in the process",
    chartStock: "Stock", chartOrders: "Units sold, against the stock there was", chartRate: "Answers per second", chartLock: "Lock: wait and hold, ms",
    accepted: "accepted", soldSeries: "sold", thereWas: "there was", over: "oversold", wait: "wait", longest: "longest wait", hold: "hold", noLock: "This mode takes no lock.",
    timeline: "Critical sections", timelineHelp: "A lane for each replica, a bar for each critical section. Where two of the same key overlap, the overlap is hatched.",
    timelineKeys: "Arrow keys move, plus and minus zoom, Home shows all.", zoomIn: "Zoom in", zoomOut: "Zoom out", earlierButton: "Earlier", laterButton: "Later", all: "All", firstOverlap: "First overlap",
    replica: "replica {n}", noBars: "This mode has no critical section in the process: the server decides in one step.",
    leftOut: "{n} [answer|answers] came too fast to be shown. The judge counts [it|them]; this page neither draws nor counts [it|them].",
    guarded: "This mode holds no lock and claims to be exact, so overlaps are expected; the verdict says whether it was.",
    overlapTable: "Overlapping sections", noOverlaps: "No two critical sections overlapped.", at: "at", first: "first inside", second: "entered meanwhile", both: "both inside for",
    someOf: "The first {n} of them are listed.",
    verdictExact: "Exact. {sold} of {initial} [unit|units] sold, each once; {refused} [request was|requests were] refused as sold out.",
    verdictExactLeft: "Exact. {sold} of {initial} [unit|units] sold, each once; {final} left.",
    verdictOver: "Oversold. {sold} [unit|units] sold from a stock of {initial}: {oversold} too many.",
    verdictLost: "{lost} sold [unit is|units are] still counted: {final} in stock after {sold} of {initial} were sold (lost updates).",
    verdictLeak: "Stock lost. {leaked} [unit is|units are] gone without an order.",
    verdictDouble: "Charged twice. {doubles} [order|orders] beyond the first for the same key.",
    verdictAck: "Orders lost. {ack} acknowledged [order is|orders are] not there.",
    verdictStuck: "Stuck. {final} [unit is|units are] left, and nobody can buy [it|them].",
    verdictBroken: "Broken.", verdictNothing: "Nothing can be said.", verdictBaseline: "A baseline: {n} [answer|answers], and no stock to judge.",
    confirmed: "As claimed.", contradicted: "Against its claim!", inconclusive: "The claim is neither confirmed nor refuted.", unclaimed: "",
    tries: "It took {n} [run|runs] to show it.", speed: "{rate} accepted per second, p50 {p50}, p99 {p99}.", noisy: "Speeds are not to be trusted: {why}.",
    evidence: "Evidence", unitTimes: "Unit {unit} was sold {times} [time|times]", unitBeyond: "Unit {unit} of {of} was sold", andMore: "and {n} more",
    failed: "The run failed: {why}", stopped: "Stopped before the end.", attempt: "attempt {n}",
    phase_reset: "setting the stock", phase_warmup: "warming up", phase_run: "selling", phase_settle: "waiting for late answers", phase_judge: "judging",
    stack: "What it runs on",
    modes: "Modes", someModes: "A few", allModes: "All", noModes: "None", startSeveral: "Run {n} [mode|modes]", compareTitle: "One load, many modes",
    compareText: "Choose the modes and press Run. Each gets the same load on fresh stock, one after the other, and the same judge; a speed without its verdict says nothing.",
    compared: "{n} of {of} [mode|modes] judged: {exact} exact, {broken} broken.", modeColumn: "mode", verdictColumn: "verdict", rateColumn: "accepted per second", p50: "p50", p99: "p99", soldOf: "{sold} of {initial}",
  },
  zh: {
    skip: "跳到正文", run: "运行", compare: "对比", matrix: "矩阵", read: "阅读",
    language: "English", dark: "深色", light: "浅色", connecting: "连接中……", lost: "连接断开，正在重连", live: "实时",
    sessionTitle: "需要本次环境的令牌", sessionText: "请打开启动时打印的地址，或在这里粘贴令牌，即 SHOP_ADMIN_TOKEN。",
    token: "令牌", open: "打开", wrongToken: "这不是当前环境的令牌。",
    unreachable: "控制台没有应答", noPageNow: "页面暂时打不开：{why}",
    mode: "模式", filter: "筛选模式", noMode: "没有符合的模式。", replicas: "副本数", clients: "客户端数", stock: "库存",
    start: "运行", stop: "停止", running: "运行中……", starting: "启动中……", unavailable: "当前环境不可用",
    claims: "它的声明", breaks: "什么会让它出错", nothingBreaks: "试过的场景都没有。", essay: "阅读说明",
    h_threads: "多线程", h_replicas: "多副本", h_slow: "变慢", h_late: "迟释放", h_pause: "停顿", h_crash: "宕机", h_failover: "主从切换", h_retry: "重试", "h_late-write": "迟到写",
    O: "超卖", L: "少卖", D: "重复扣减", X: "卡死", A: "丢订单",
    exact: "精确", impossible: "不会发生", earlier: "前面已出错", baseline: "基准：不访问任何存储，也不作声明。",
    emptyTitle: "把最后一件卖好", emptyText: "选一个模式，点“运行”。{clients} 个客户端的请求量是库存的一倍半，由裁判清点谁真正买到了。",
    left: "剩余库存", sold: "已售", refused: "被拒绝", overlaps: "重叠", of: "共 {n}", perSecond: "每秒成交 {n}",
    sections: "共 {n} 个临界区", noSections: "进程内没有临界区",
    chartStock: "库存", chartOrders: "已售件数与原有库存", chartRate: "每秒应答数", chartLock: "锁：等待与持有（毫秒）",
    accepted: "成功", soldSeries: "已售", thereWas: "原有", over: "超卖", wait: "等待", longest: "最长等待", hold: "持有", noLock: "该模式不加锁。",
    timeline: "临界区", timelineHelp: "每个副本一条泳道，每个临界区一根横条；同一个键的两个临界区重叠时，重叠部分画斜线。",
    timelineKeys: "方向键移动，加减号缩放，Home 显示全部。", zoomIn: "放大", zoomOut: "缩小", earlierButton: "向前", laterButton: "向后", all: "全部", firstOverlap: "首个重叠",
    replica: "副本 {n}", noBars: "该模式在进程内没有临界区：由服务器一步完成判断和写入。",
    leftOut: "有 {n} 个应答来得太快，来不及显示：裁判照常计入，但这里没有画出，也没有计数。",
    guarded: "这个模式不加锁，声明并发下也精确，所以出现重叠是正常的；是否精确看判定。",
    overlapTable: "重叠的临界区", noOverlaps: "没有任何两个临界区重叠。", at: "时刻", first: "先进入者", second: "其间进入者", both: "同时在内",
    someOf: "只列出前 {n} 个。",
    verdictExact: "精确。共 {initial} 件，售出 {sold} 件，每件一次；{refused} 个请求因售罄被拒绝。",
    verdictExactLeft: "精确。共 {initial} 件，售出 {sold} 件，每件一次；还剩 {final} 件。",
    verdictOver: "超卖。库存只有 {initial} 件，却卖出 {sold} 件，多卖 {oversold} 件。",
    verdictLost: "{lost} 件卖掉了却还算在库存里：{initial} 件卖出 {sold} 件之后，库存仍是 {final} 件（丢失更新）。",
    verdictLeak: "少卖。{leaked} 件库存已扣，却没有订单。",
    verdictDouble: "重复扣减。同一幂等键多出 {doubles} 条订单。",
    verdictAck: "丢订单。{ack} 条已确认的订单不存在。",
    verdictStuck: "卡死。还剩 {final} 件，谁也买不到。",
    verdictBroken: "出错。", verdictNothing: "无法判定。", verdictBaseline: "基准：{n} 个应答，没有库存可判。",
    confirmed: "与声明一致。", contradicted: "与声明不符！", inconclusive: "声明既未证实也未推翻。", unclaimed: "",
    tries: "跑了 {n} 次才出现。", speed: "每秒成交 {rate}，p50 {p50}，p99 {p99}。", noisy: "速度数据不可信：{why}。",
    evidence: "证据", unitTimes: "第 {unit} 件被卖出 {times} 次", unitBeyond: "第 {unit} 件（共 {of} 件）被卖出", andMore: "另有 {n} 条",
    failed: "运行失败：{why}", stopped: "未跑完就停止了。", attempt: "第 {n} 次",
    phase_reset: "设置库存", phase_warmup: "预热", phase_run: "售卖中", phase_settle: "等待迟到的应答", phase_judge: "判定中",
    stack: "运行环境",
    modes: "模式", someModes: "几种", allModes: "全部", noModes: "清空", startSeveral: "运行 {n} 个模式", compareTitle: "同样的负载，不同的模式",
    compareText: "勾选模式，点“运行”。各模式依次用全新的库存接受同样的负载，由同一个裁判判定；不看判定，速度毫无意义。",
    compared: "已判定 {n} / {of} 个模式：{exact} 个精确，{broken} 个出错。", modeColumn: "模式", verdictColumn: "判定", rateColumn: "每秒成交", p50: "p50", p99: "p99", soldOf: "{sold} / {initial}",
  },
};

let current = "en";

// addWords adds the words of a page that has a file of its own for them.
export function addWords(more) {
  for (const l of Object.keys(words)) Object.assign(words[l], more[l]);
}

export function pickLanguage() {
  const asked = new URLSearchParams(location.search).get("lang") ?? localStorage.getItem("lastitem.lang");
  const wanted = asked ?? (navigator.languages ?? [navigator.language]).find((l) => /^(zh|en)/i.test(l)) ?? "en";
  setLanguage(/^zh/i.test(wanted) ? "zh" : "en");
}

export function setLanguage(lang) {
  current = lang;
  document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
}

export const lang = () => current;

// space is what separates a word from the text after it: Chinese has no spaces.
export const space = () => (current === "zh" ? "" : " ");

// colon and bracketed punctuate as the language does.
export const colon = () => (current === "zh" ? "：" : ": ");
export const bracketed = (text) => (current === "zh" ? `（${text}）` : ` (${text})`);

// t returns the words for a key, with {names} filled in; "[unit|units]" becomes its first form if the number before it is 1, else its second.
export function t(key, values = {}) {
  const text = words[current][key] ?? key;
  let one = false;
  return text.replace(/\{(\w+)\}|\[([^\][|{]*)\|([^\][|{]*)\]/g, (_, name, first, second) => {
    if (name === undefined) return one ? first : second;
    const value = String(values[name] ?? "");
    if (/^[\d.,]+$/.test(value)) one = value === "1";
    return value;
  });
}

// both picks the language of a text that the server gives in both.
export const both = (text) => (text ? text[current] || text.en : "");

// number writes a number with at most so many decimals; always, of which are always written.
export const number = (n, digits = 0, always = 0) =>
  new Intl.NumberFormat(current === "zh" ? "zh-CN" : "en", { maximumFractionDigits: digits, minimumFractionDigits: always }).format(n);

// duration writes nanoseconds for people.
export function duration(ns) {
  if (ns >= 1e9) return `${number(ns / 1e9, 2)} s`;
  if (ns >= 1e6) return `${number(ns / 1e6, ns >= 1e8 ? 0 : 1)} ms`;
  return `${number(ns / 1e3)} µs`;
}
