import { lockChart, ordersChart, rateChart, series, stockChart } from "./charts.js";
import { keep, kept, numbers, picker, startOrStop } from "./controls.js";
import { el, replace } from "./dom.js";
import { both, bracketed, colon, number, space, t } from "./i18n.js";
import { hazardName, isBroken, ladder, outcomeNames, stage } from "./say.js";
import { Timeline } from "./timeline.js";
import { details, sentences, tone } from "./verdict.js";

// RunView is the page that runs one mode.
export class RunView {
  constructor(app) {
    this.app = app;
    this.form = { mode: "unsafe", replicas: 0, clients: 40, stock: 1000, ...kept("form") };
  }

  // show builds the page; asked is a mode from the address.
  show(main, asked) {
    const { modes, replicas } = this.app.state;
    if (asked && modes.some((m) => m.name === asked)) this.form.mode = asked;
    if (!modes.some((m) => m.name === this.form.mode)) this.form.mode = modes[0].name;
    this.form.replicas = Math.min(this.form.replicas || replicas.length, replicas.length);
    this.chosen = el("section", { class: "chosen", "aria-live": "polite" });
    this.button = el("button", { type: "submit", class: "go" });
    this.message = el("p", { class: "message", role: "alert" });
    const submit = (e) => {
      const { mode, ...load } = this.form;
      startOrStop(e, this, { ...load, modes: [mode] });
    };
    const form = el("form", { class: "controls", submit }, el("h1", { class: "hidden" }, t("Run")),
      picker(modes, { chosen: [this.form.mode], change: (name) => this.choose(name) }), this.chosen,
      numbers(this.form, replicas.length, () => this.keep()),
      this.button, this.message,
      el("details", { class: "stack" }, el("summary", {}, t("What it runs on")), el("ul", {}, this.app.state.stack.map((s) => el("li", {}, s)))));
    this.stage = el("div", { class: "stage" });
    replace(main, el("div", { class: "run" }, form, this.stage));
    this.build();
    this.describe();
    this.update();
  }

  // choose changes the mode, and its name in the address, which a change of the language reads again.
  choose(name) {
    this.form.mode = name;
    this.keep();
    history.replaceState(null, "", `#/run/${name}`);
    this.describe();
  }

  keep() {
    keep("form", this.form);
    this.emptyText.textContent = this.invitation();
  }

  invitation() {
    return t("Choose a mode and press Run. {clients} [client asks|clients ask] for half as many units again as there are; the judge counts who got one.",
      { clients: number(this.form.clients) });
  }

  get mode() {
    return this.app.state.modes.find((m) => m.name === this.form.mode);
  }

  // describe tells about the chosen mode.
  describe() {
    const m = this.mode;
    const broken = new Map();
    for (const row of Object.values(m.claims ?? {})) {
      for (const [hazard, outcome] of Object.entries(row)) {
        if (isBroken(outcome)) broken.set(hazard, [...new Set([...(broken.get(hazard) ?? ""), ...outcome])].join(""));
      }
    }
    const store = m.stores[0];
    replace(this.chosen,
      el("h2", { class: "mode-title" }, both(m.title)),
      m.baseline ? el("p", { class: "soft" }, t("A baseline: it touches no store and claims nothing.")) : [
        el("ul", { class: "claims", "aria-label": t("What it claims") }, ladder.map((h) => claim(h, m.claims?.[store]?.[h] ?? ""))),
        el("p", { class: "breaks" }, el("span", { class: "soft" }, t("What breaks it") + colon()),
          broken.size === 0 ? t("Nothing that was tried.")
            : ladder.filter((h) => broken.has(h)).map((h) => hazardName(h) + bracketed(outcomeNames(broken.get(h)))).join(t("; "))),
      ],
      el("p", { class: "breaks" }, el("a", { href: `#/read/modes/${m.name}` }, t("Read about it"))));
    if (!this.app.model.run) this.update();
  }

  build() {
    this.verdict = el("section", { class: "verdict", "aria-live": "polite" });
    const figure = (name, text) => {
      const value = el("span", { class: "figure-value" }, "–"), note = el("span", { class: "figure-note" });
      return { box: el("div", { class: `figure figure-${name}` }, el("span", { class: "figure-name" }, text), value, note), value, note };
    };
    this.figures = { left: figure("left", t("left in stock")), sold: figure("sold", t("sold")), refused: figure("refused", t("refused")), overlaps: figure("overlaps", t("overlaps")) };
    const chart = (name, legend) => {
      const box = el("div", { class: "plot", role: "img", "aria-label": name });
      return { box, name, section: el("figure", { class: "chart" }, el("figcaption", {}, el("span", {}, name), legend && el("span", { class: "keys" }, legend)), box) };
    };
    const key = (name, cls) => el("span", { class: `key ${cls}` }, name);
    const stock = chart(t("Stock")), orders = chart(t("Units sold, against the stock there was"), [key(t("sold"), "k-ink"), key(t("there was"), "k-dash"), key(t("oversold"), "k-bad")]),
      rate = chart(t("Answers per second"), [key(t("accepted"), "k-accent"), key(t("refused"), "k-dash")]),
      lock = chart(t("Lock: wait and hold, ms"), [key(t("wait"), "k-warm"), key(t("hold"), "k-accent"), key(t("longest wait"), "k-faint")]);
    this.noLock = el("p", { class: "soft over-plot", hidden: true }, t("This mode takes no lock."));
    lock.section.append(this.noLock);
    this.plots = { stock, orders };
    this.charts = { stock: stockChart(stock.box), orders: ordersChart(orders.box), rate: rateChart(rate.box), lock: lockChart(lock.box) };
    const canvas = el("canvas", { class: "lanes", tabindex: "0", role: "img" });
    this.timeline = new Timeline(canvas);
    const tool = (sign, act, name = sign) => el("button", { type: "button", class: "quiet", "aria-label": name, click: act }, sign);
    this.lanesNote = el("p", { class: "soft lanes-note" });
    this.tools = el("div", { class: "timeline-tools" },
      tool(t("First overlap"), () => this.toFirstOverlap()), tool("←", () => this.timeline.move(-0.3), t("Earlier")), tool("→", () => this.timeline.move(0.3), t("Later")),
      tool("−", () => this.timeline.zoom(1.7), t("Zoom out")), tool("+", () => this.timeline.zoom(0.6), t("Zoom in")), tool(t("All"), () => this.timeline.all()));
    this.table = el("div", { class: "pairs" });
    this.content = el("div", { class: "content" },
      this.verdict,
      el("section", { class: "figures" }, Object.values(this.figures).map((f) => f.box)),
      el("section", { class: "charts" }, orders.section, stock.section, rate.section, lock.section),
      el("section", { class: "timeline" },
        el("header", {}, el("h2", {}, t("Critical sections")), this.tools),
        this.lanesNote, canvas, this.table));
    this.emptyText = el("p", {}, this.invitation());
    this.empty = el("section", { class: "empty" }, el("h2", {}, t("Sell the last item")), this.emptyText);
    this.loads = null; // a new timeline: it begins where that of a new load does
    this.pairsSeen = "";
    this.verdictSeen = null;
  }

  // toFirstOverlap shows the first overlap that can still be drawn: of a long run only the newest sections are kept, of all the first pairs.
  toFirstOverlap() {
    const { pairs, bars } = this.app.model;
    const kept = bars.reduce((first, b) => Math.min(first, b[2]), Infinity);
    const p = pairs.find((pair) => pair.at >= kept);
    const bar = !p && bars.find((b) => b[4]);
    if (p) this.timeline.around(p.at, p.by);
    else if (bar) this.timeline.around(bar[2], bar[3] - bar[2]);
  }

  // update draws what has changed. It is called at most once for a frame of the screen.
  update() {
    const { model } = this.app;
    this.button.textContent = model.running ? t("Stop") : t("Run");
    this.button.classList.toggle("stop", model.running);
    this.button.disabled = this.sending || !model.known;
    const mine = model.run && model.run.spec.modes.length === 1;
    const wanted = mine ? this.content : this.empty;
    if (this.stage.firstChild !== wanted) replace(this.stage, wanted);
    if (!mine) return;
    this.drawVerdict(model);
    if (this.loads !== model.loads) {
      this.loads = model.loads;
      this.timeline.follow = true;
      this.timeline.heights = null;
      this.first = true;
    }
    this.drawFigures(model);
    const data = series(model, this.ran(model)?.baseline ? null : model.run.spec.stock, this.judged(model)?.final);
    this.charts.stock.draw(data.stock);
    this.charts.orders.draw(data.orders);
    this.charts.rate.draw(data.rate);
    this.charts.lock.draw(data.lock);
    this.say(this.plots.stock, data.stock[1].at(-1));
    this.say(this.plots.orders, data.orders[1].at(-1));
    this.noLock.hidden = data.locks || model.bins.length === 0;
    this.drawTimeline(model);
  }

  // judged is the verdict on a run whose ledger could be read.
  judged(model) {
    const verdict = model.result?.verdicts?.[0];
    return verdict && verdict.verdict !== "INCONCLUSIVE" ? verdict : null;
  }

  // say tells those who cannot see a curve where it ends.
  say(chart, value) {
    chart.box.setAttribute("aria-label", chart.name + colon() + (value === null ? "–" : number(value)));
  }

  drawFigures(model) {
    const { left, sold, refused, overlaps } = this.figures;
    const sum = model.totals(), { stock } = model.run.spec, verdict = this.judged(model);
    const baseline = this.ran(model)?.baseline, of = baseline ? "" : t("of {n}", { n: number(stock) });
    const units = verdict?.sold ?? sum.accepted, remaining = verdict?.final ?? sum.remaining;
    left.value.textContent = remaining === null || remaining === undefined ? "–" : number(remaining);
    left.note.textContent = of;
    left.box.classList.toggle("is-bad", remaining < 0);
    sold.value.textContent = baseline ? "–" : number(units);
    sold.note.textContent = of;
    sold.box.classList.toggle("is-bad", !baseline && units > stock);
    refused.value.textContent = number(model.result?.codes?.sold_out ?? sum.refused);
    const seconds = (model.bins.filter((b) => b[0] + b[1] + b[2] > 0).length * model.width) / 1000;
    const rate = model.result?.accepted_per_second ?? (seconds > 0 ? sum.accepted / seconds : 0);
    refused.note.textContent = rate > 0 ? t("{n}/s accepted", { n: number(rate) }) : "";
    overlaps.value.textContent = number(model.overlaps);
    overlaps.note.textContent = model.sections > 0 ? t("of {n} [section|sections]", { n: number(model.sections) }) : t("no section in the process");
    overlaps.box.classList.toggle("is-bad", model.overlaps > 0 && !this.claimsExact(model));
  }

  // ran is the mode of the run.
  ran(model) {
    return this.app.state.modes.find((m) => m.name === model.run.spec.modes[0]);
  }

  // claimsExact says whether the sections of the run hold no lock, and the mode claims to be exact under concurrent requests all the same: then
  // overlaps are expected. Whether it was exact is for the verdict.
  claimsExact(model) {
    return model.bars.every((b) => b[1] === "") && Object.values(this.ran(model)?.claims ?? {}).every((c) => c.threads === ".");
  }

  drawTimeline(model) {
    this.timeline.set(model.bars, model.lanes);
    if (this.first && model.result && model.pairs.length > 0) {
      this.first = false;
      this.toFirstOverlap();
    }
    const canvas = this.timeline.canvas;
    canvas.hidden = model.sections === 0;
    this.tools.hidden = canvas.hidden;
    this.tools.firstChild.disabled = model.pairs.length === 0;
    const says = [model.sections === 0 && model.bins.length > 0 ? (this.ran(model)?.baseline ? t("A baseline: it touches no store and claims nothing.") : t("This mode has no critical section in the process: the server decides in one step.")) : t("A lane for each replica, a bar for each critical section. Where two of the same key overlap, the overlap is hatched.")];
    if (model.overlaps > 0 && this.claimsExact(model)) says.push(t("This mode holds no lock and claims to be exact, so overlaps are expected; the verdict says whether it was."));
    if (model.leftOut > 0) says.push(t("{n} [answer|answers] came too fast to be shown. The judge counts [it|them]; this page neither draws nor counts [it|them].", { n: number(model.leftOut) }));
    this.lanesNote.textContent = says.join(space());
    canvas.setAttribute("aria-label", `${t("Critical sections")}${colon()}${number(model.overlaps)} ${t("overlaps")}, ${t("of {n} [section|sections]", { n: number(model.sections) })}. ${t("Arrow keys move, plus and minus zoom, Home shows all.")}`);
    this.timeline.draw();
    const seen = `${model.loads}/${model.pairs.length}/${model.sections > 0}`;
    if (this.pairsSeen === seen) return;
    this.pairsSeen = seen;
    this.drawPairs(model);
  }

  drawPairs(model) {
    if (model.pairs.length === 0) {
      replace(this.table, model.sections > 0 && el("p", { class: "soft" }, t("No two critical sections overlapped.")));
      return;
    }
    const cell = (text, cls = null) => el("td", { class: cls }, text);
    const heads = [t("at"), t("first inside"), t("entered meanwhile"), t("both inside for")];
    replace(this.table, el("details", { open: true }, el("summary", {}, t("Overlapping sections")),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("Overlapping sections") }, el("table", {},
        el("thead", {}, el("tr", {}, heads.map((h, i) => el("th", { scope: "col", class: i === 3 ? "right" : null }, h)))),
        el("tbody", {}, model.pairs.map((p) => el("tr", {}, cell(`${number(p.at / 1e3, 2, 2)} ms`), cell(who(p.a)), cell(who(p.b)), cell(`${number(p.by)} µs`, "right")))))),
      el("p", { class: "soft" }, t("The first {n} of them are listed.", { n: number(model.pairs.length) }))));
  }

  drawVerdict(model) {
    const { run, result } = model;
    const state = `${run.id}/${run.state}/${run.step.phase}/${run.attempt}/${Boolean(result)}/${Math.round(run.step.done * 50)}`;
    if (state === this.verdictSeen) return;
    this.verdictSeen = state;
    const mode = run.spec.modes[0];
    this.verdict.dataset.run = run.id;
    const name = el("p", { class: "eyebrow" }, el("code", {}, mode), run.attempt > 1 ? ` · ${t("attempt {n}", { n: run.attempt })}` : "");
    if (result) {
      this.verdict.className = `verdict is-${tone(result)}`;
      replace(this.verdict, name, el("p", { class: "verdict-line", id: "verdict" }, sentences(result)[0]), details(result));
      return;
    }
    this.verdict.className = "verdict is-none";
    const broken = run.results.find((r) => r.error);
    const text = run.state === "stopped" ? t("Stopped before the end.") : run.state !== "running" ? t("The run failed: {why}", { why: run.error || broken?.error || "" })
      : stage(run);
    const bar = run.state === "running" && el("progress", { max: "1", "aria-label": t("Running …") });
    if (bar) bar.value = run.step.done ?? 0;
    replace(this.verdict, name, el("p", { class: "verdict-line" }, text), bar);
  }

  // again redraws what has the colours of the theme.
  again() {
    for (const c of Object.values(this.charts)) c.again();
    this.timeline.draw();
  }
}

// who names a request of a replica: "replica 2, request 1f".
function who(request) {
  const [replica, n] = request.split("-");
  return `${t("replica {n}", { n: replica })} · #${n}`;
}

function claim(hazard, outcome) {
  const kind = outcome === "." ? "good" : outcome === "" ? "blank" : outcome === "–" ? "na" : "bad";
  const says = { good: t("exact"), blank: t("broken already"), na: t("cannot happen") }[kind] ?? outcomeNames(outcome);
  const sign = { good: "✓", blank: "\u00a0", na: "–" }[kind] ?? outcome;
  return el("li", { class: `claim ${kind}`, title: says }, el("span", { class: "claim-sign", "aria-hidden": "true" }, sign),
    el("span", { class: "claim-name" }, hazardName(hazard)), el("span", { class: "hidden" }, colon() + says));
}
