import { ageChart, endsChart, lockChart, ordersChart, rateChart, series, stockChart } from "./charts.js";
import { drawButton, keep, kept, numbers, ours, picker, reveal, startOrStop } from "./controls.js";
import { el, replace } from "./dom.js";
import { both, bracketed, colon, number, space, t } from "./i18n.js";
import { beganAt } from "./model.js";
import { Replay } from "./replay.js";
import { breaks, cellAddress, hazardName, isBroken, ladder, outcomeNames, stage } from "./say.js";
import { get } from "./stream.js";
import { lifeHeads, lives } from "./tickets.js";
import { Timeline } from "./timeline.js";
import { details, headline, loadTone, lostAnswers, tone } from "./verdict.js";

// RunView is the page that runs one mode.
export class RunView {
  constructor(app) {
    this.app = app;
    this.form = { mode: "unsafe", replicas: 0, clients: 40, stock: 1000, ...kept("form") };
    this.adopts = Object.keys(kept("form")).length === 0; // a window that has chosen nothing yet takes the mode of the last run
    this.watched = 0; // the run that is shown though another mode is chosen: it was seen running
  }

  // show builds the page; asked is a mode from the address.
  show(main, asked) {
    const { modes, replicas } = this.app.state;
    if (asked && modes.some((m) => m.name === asked)) {
      if (this.form.mode !== asked) this.watched = 0;
      this.form.mode = asked;
      this.adopts = false;
    }
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
      picker(modes, { chosen: [this.form.mode], change: (name) => this.choose(name) }),
      numbers(this.form, replicas.length, () => this.keep()),
      this.button, this.message, this.chosen,
      el("details", { class: "stack" }, el("summary", {}, t("What it runs on")), el("ul", {}, this.app.state.stack.map((s) => el("li", {}, s)))));
    if (this.app.state.steps && !this.lessons) {
      this.lessons = [];
      get("lessons").then((all) => { this.lessons = all.lessons; }, () => { this.lessons = null; });
    }
    this.stage = el("div", { class: "stage" });
    replace(main, el("div", { class: "run" }, form, this.stage));
    this.build();
    this.describe();
    this.update();
  }

  // choose changes the mode, and its name in the address, which a change of the language reads again.
  choose(name) {
    this.form.mode = name;
    this.watched = 0;
    this.adopts = false;
    this.keep();
    history.replaceState(null, "", `#/run/${name}`);
    this.describe();
    this.update();
  }

  keep() {
    keep("form", this.form);
    this.emptyText.textContent = this.invitation();
  }

  invitation() {
    if (this.mode.reserves) return t("Choose a mode and press Run. {clients} [buyer comes|buyers come] at a time, several times as many as there are units: some click twice, and units come back from those who cancel, pay too late or leave. The judge counts who got one.", { clients: number(this.form.clients) });
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
      !m.available && el("p", { class: "note" }, t("not available here"), colon(), m.why ?? ""),
      m.baseline ? el("p", { class: "soft" }, t("A baseline: it touches no store and claims nothing.")) : [
        el("ul", { class: "claims", "aria-label": t("What it claims") }, ladder.map((h, i) => claim(h, m.claims?.[store]?.[h] ?? "", ladder.slice(0, i).some((x) => isBroken(m.claims?.[store]?.[x]))))),
        el("p", { class: "breaks" }, el("span", { class: "soft" }, t("What breaks it") + colon()),
          broken.size === 0 ? t("Nothing that was tried.")
            : ladder.filter((h) => broken.has(h)).map((h) => hazardName(h) + bracketed(outcomeNames(broken.get(h)))).join(t("; "))),
      ],
      el("p", { class: "breaks" }, el("a", { href: `#/read/modes/${m.name}` }, t("Read about it"))));
  }

  build() {
    this.verdict = el("section", { class: "verdict", "aria-live": "polite" });
    const figure = (name, text) => {
      const value = el("span", { class: "figure-value" }, "–"), note = el("span", { class: "figure-note" });
      return { box: el("div", { class: `figure figure-${name}` }, el("span", { class: "figure-name" }, text), value, note), value, note };
    };
    this.figures = { left: figure("left", t("left in stock")), sold: figure("sold", t("sold")), refused: figure("refused", t("refused")), failed: figure("failed", t("no answer")), overlaps: figure("overlaps", t("overlapped#sections")) };
    const chart = (name, legend) => {
      const box = el("div", { class: "plot", role: "img", "aria-label": name });
      return { box, name, section: el("figure", { class: "chart" }, el("figcaption", {}, el("span", {}, name), legend && el("span", { class: "keys" }, legend)), box) };
    };
    const key = (name, cls) => el("span", { class: `key ${cls}` }, name);
    this.heldKey = key(t("held#units"), "k-warm");
    this.voidKey = key(t("void"), "k-faint");
    this.soldKey = key("", "k-ink");
    this.ticketKeys = [key(t("completed"), "k-accent"), key(t("in flight"), "k-warm")];
    const stock = chart(t("Stock"), [key(t("counted"), "k-accent"), key(t("initial stock − sold"), "k-lost"), this.heldKey]), orders = chart(t("Units sold, against the stock there was"), [this.soldKey, this.ticketKeys, key(t("initial stock"), "k-dash"), key(t("oversold"), "k-bad")]),
      rate = chart(t("Answers per second"), [key(t("accepted"), "k-accent"), key(t("refused"), "k-dash")]),
      age = chart(t("Age of tickets at their end, ms"), [key(t("mean"), "k-warm"), key(t("oldest"), "k-faint")]),
      ends = chart(t("Holds that end, per second"), [key(t("paid"), "k-ink"), key(t("cancelled"), "k-dash"), key(t("expired"), "k-warm"), this.voidKey]),
      lock = chart(t("Lock: wait and hold, ms"), [key(t("wait"), "k-warm"), key(t("hold"), "k-accent"), key(t("longest wait"), "k-faint")]);
    this.noLock = el("p", { class: "soft over-plot", hidden: true }, t("This mode takes no lock."));
    lock.section.append(this.noLock);
    this.plots = { stock, orders, rate, lock, age, ends };
    this.charts = { stock: stockChart(stock.box), orders: ordersChart(orders.box), rate: rateChart(rate.box), lock: lockChart(lock.box), age: ageChart(age.box), ends: endsChart(ends.box) };
    const canvas = el("canvas", { class: "lanes", tabindex: "0", role: "img" });
    this.timeline = new Timeline(canvas);
    const tool = (sign, act, name = sign) => el("button", { type: "button", class: "quiet", "aria-label": name, click: act }, sign);
    this.lanesTitle = el("h2");
    this.lanesNote = el("p", { class: "soft lanes-note" });
    this.tools = el("div", { class: "timeline-tools" },
      tool(t("First overlap"), () => this.toFirstOverlap()), tool("←", () => this.timeline.move(-0.3), t("Earlier")), tool("→", () => this.timeline.move(0.3), t("Later")),
      tool("−", () => this.timeline.zoom(1.7), t("Zoom out")), tool("+", () => this.timeline.zoom(0.6), t("Zoom in")), tool(t("All"), () => this.timeline.all()));
    this.table = el("div", { class: "pairs" });
    this.replay = new Replay(() => this.update());
    this.content = el("div", { class: "content" },
      this.verdict,
      el("section", { class: "figures is-five" }, Object.values(this.figures).map((f) => f.box)),
      this.replay.box,
      el("section", { class: "charts" }, orders.section, stock.section, rate.section, lock.section, age.section, ends.section),
      el("section", { class: "timeline" },
        el("header", {}, this.lanesTitle, this.tools),
        this.lanesNote, canvas, this.table));
    this.emptyText = el("p", {}, this.invitation());
    this.last = el("p", { hidden: true }, el("button", { type: "button", class: "quiet", click: () => this.adopt() }));
    this.empty = el("section", { class: "empty" }, el("h2", {}, t("Sell the last item")), this.emptyText, this.last);
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
    const { run } = model, ran = run?.spec.modes.length === 1 && run.spec.modes[0];
    if (model.known && this.adopts && ran) this.adopt();
    if (model.running) this.watched = run.id;
    drawButton(this, t("Run"), this.mode.available);
    const mine = ran && (ran === this.form.mode || this.watched === run.id);
    this.last.hidden = !ran;
    if (ran) this.last.firstChild.textContent = t("Show the last run: {mode}", { mode: ran });
    const wanted = mine ? this.content : this.empty;
    if (this.stage.firstChild !== wanted) replace(this.stage, wanted);
    if (!mine) return;
    this.drawVerdict(model);
    if (this.loads !== model.loads) {
      this.loads = model.loads;
      this.timeline.follow = true;
      this.timeline.heights = null;
      this.first = true;
      this.replay.reset();
    }
    this.replay.update(model);
    const at = this.replay.at, shown = at === null ? model : model.until(at);
    const data = series(shown, this.ran(model)?.baseline ? null : model.run.spec.stock, at === null ? this.judged(model)?.final : undefined, this.ran(model)?.reserves, this.ran(model)?.tickets);
    this.drawFigures(shown, at !== null, data.orders[5]);
    const marks = shown.marks.map((m) => ({ ...m, x: Math.max(0, (m.at - beganAt(model)) / 1e6), text: markText(m) }));
    const end = at === null ? null : (model.bins.length * model.width * 1000 - beganAt(model)) / 1e6; // the axis stays as long as the run
    const reserves = Boolean(this.ran(model)?.reserves), tickets = Boolean(this.ran(model)?.tickets);
    this.plots.lock.section.hidden = reserves || tickets;
    this.plots.ends.section.hidden = !reserves;
    this.plots.age.section.hidden = !tickets;
    this.soldKey.textContent = tickets ? t("acknowledged") : t("sold");
    for (const k of this.ticketKeys) k.hidden = !tickets;
    this.voidKey.hidden = data.ends[4].every((n) => n === 0);
    for (const [name, chart] of Object.entries(this.charts)) {
      if (end !== null) data[name].forEach((line, i) => line.push(i === 0 ? end : null));
      chart.draw(data[name], marks);
      if (end !== null) data[name].forEach((line) => line.pop());
    }
    this.say(this.plots.stock, data.stock[1].at(-1));
    this.say(this.plots.orders, data.orders[1].at(-1));
    const none = model.bins.length === 0; // axes without a curve say nothing
    for (const plot of [this.plots.stock, this.plots.orders, this.plots.rate, this.plots.age, this.plots.ends]) plot.section.classList.toggle("is-blank", none);
    this.plots.lock.section.classList.toggle("is-blank", !data.locks);
    this.noLock.hidden = data.locks || none;
    this.drawTimeline(model, data.moments);
    if (at !== null && model.sections > 0) this.timeline.around(Math.max(0, at - 50_000), 50_000);
  }

  // adopt chooses the mode of the last run.
  adopt() {
    const [name] = this.app.model.run.spec.modes;
    const row = this.stage.parentElement.querySelector(`[name=mode][value="${CSS.escape(name)}"]`);
    this.adopts = false;
    if (!row) return;
    row.checked = true;
    reveal(row.closest(".modes"));
    this.choose(name);
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

  drawFigures(model, then, flight) {
    const { left, sold, refused, failed, overlaps } = this.figures;
    const result = then ? null : model.result; // in a replay the numbers are those of its moment
    const sum = model.totals(), { stock } = model.run.spec, verdict = then ? null : this.judged(model);
    const baseline = this.ran(model)?.baseline, of = baseline ? "" : t("of {n}", { n: number(stock) });
    const units = verdict?.sold ?? sum.accepted, remaining = verdict?.final ?? sum.remaining;
    left.value.textContent = remaining === null || remaining === undefined ? "–" : number(remaining);
    const wrong = !baseline && verdict?.lost_updates > 0;
    left.note.textContent = wrong ? t("{n} should be left", { n: number(stock - units) }) : of;
    left.box.classList.toggle("is-bad", remaining < 0 || wrong);
    sold.value.textContent = baseline ? "–" : number(units);
    sold.note.textContent = of;
    sold.box.classList.toggle("is-bad", !baseline && units > stock);
    refused.value.textContent = number(result?.codes?.sold_out ?? sum.refused);
    const unknown = result ? lostAnswers(result) : Math.max(sum.failed, then ? 0 : model.run.step.failed ?? 0);
    failed.value.textContent = number(unknown);
    failed.note.textContent = unknown > 0 ? t("unknown whether it happened") : "";
    failed.box.classList.toggle("is-bad", unknown > 0);
    const seconds = (model.bins.filter((b) => b[0] + b[1] + b[2] > 0).length * model.width) / 1000;
    const rate = result?.accepted_per_second ?? (seconds > 0 ? sum.accepted / seconds : 0);
    refused.note.textContent = rate <= 0 ? "" : this.ran(model)?.reserves ? t("{n}/s paid", { n: number(rate) }) : t("{n}/s accepted", { n: number(rate) });
    this.heldKey.hidden = !this.ran(model)?.reserves;
    overlaps.box.firstChild.textContent = this.heldKey.hidden ? t("overlapped#sections") : t("held#units");
    if (this.ran(model)?.tickets) {
      overlaps.box.firstChild.textContent = t("in flight");
      overlaps.value.textContent = number(Math.max(0, sum.accepted - sum.ended));
      overlaps.note.textContent = t("at most {n}", { n: number(Math.max(0, ...flight.filter((n) => n > 0))) });
      overlaps.box.classList.remove("is-bad");
      return;
    }
    if (!this.heldKey.hidden) { // it has no critical section in the process
      const holds = result?.holds ?? sum;
      overlaps.value.textContent = number(Math.max(0, stock - units - (remaining ?? stock - units)));
      overlaps.note.textContent = t("{n} cancelled, {m} expired", { n: number(holds.cancelled), m: number(holds.expired) });
      overlaps.box.classList.remove("is-bad");
      return;
    }
    overlaps.value.textContent = number(then ? model.bars.filter((b) => b[4]).length : model.overlaps);
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

  drawTimeline(model, moments) {
    const began = beganAt(model);
    this.timeline.set(model.bars, model.lanes, began);
    if (this.first && model.result && model.pairs.length > 0) {
      this.first = false;
      this.toFirstOverlap();
    }
    const canvas = this.timeline.canvas;
    const { reserves, tickets } = this.ran(model) ?? {};
    canvas.hidden = model.bars.length === 0;
    this.tools.hidden = canvas.hidden;
    this.tools.firstChild.disabled = model.pairs.length === 0;
    this.tools.firstChild.hidden = Boolean(tickets);
    const says = [tickets ? t("A lane for each replica. A dot is a win; a line leads from it to the bar of the replica whose consumer has read the ticket, with others. While the bar is pale their orders are written in SQL, while it is dark Redis is told. A few tickets of each bar are drawn.") : model.sections === 0 && model.bins.length > 0 ? (this.ran(model)?.baseline ? t("A baseline: it touches no store and claims nothing.") : this.ran(model)?.reserves ? t("This mode holds units for a buyer: sold is what was paid. A unit that is neither in stock nor sold is held. A hold ends when its buyer pays or cancels, or when a sweep finds it past its deadline; a hold of a stock that was set anew is void.") : t("This mode has no critical section in the process: the server decides in one step.")) : t("A lane for each replica, a bar for each critical section. Where two of the same key overlap, the overlap is hatched.")];
    if (model.overlaps > 0 && this.claimsExact(model)) says.push(t("This mode holds no lock and claims to be exact, so overlaps are expected; the verdict says whether it was."));
    if (model.leftOut > 0) says.push(t("{n} [answer|answers] came too fast to be shown. The judge counts [it|them]; this page neither draws nor counts [it|them].", { n: number(model.leftOut) }));
    this.lanesNote.textContent = says.join(space());
    canvas.setAttribute("aria-label", tickets ? `${t("Tickets, from the win to the end")}. ${t("Arrow keys move, plus and minus zoom, Home shows all.")}` : `${t("Critical sections")}${colon()}${t("{n} of {of} overlapped another", { n: number(model.overlaps), of: number(model.sections) })}. ${t("Arrow keys move, plus and minus zoom, Home shows all.")}`);
    this.timeline.draw();
    this.lanesTitle.textContent = tickets ? t("Tickets, from the win to the end") : reserves ? t("When holds end") : t("Critical sections");
    const seen = `${model.loads}/${tickets ? `${Math.floor((model.bars.at(-1)?.[3] ?? 0) / 1e6)}/${model.running}` : reserves ? model.bins.length : `${model.pairs.length}/${began}`}/${model.sections > 0}`;
    if (this.pairsSeen === seen) return;
    this.pairsSeen = seen;
    if (tickets) replace(this.table, model.bars.length > 0 && this.listed(t("Lives of tickets"), lifeHeads(), lives(model, began), () => null, t("Each step says how long after the one before it came.")));
    else if (reserves) this.drawMoments(moments);
    else this.drawPairs(model);
  }

  // drawMoments lists when holds ended, and how.
  drawMoments(moments) {
    const voids = moments.some((m) => m[4] > 0), heads = [t("at"), t("paid"), t("cancelled"), t("expired"), voids && t("void"), t("held then")].filter(Boolean);
    replace(this.table, moments.length > 0 && this.listed(t("Holds that ended"), heads, moments.map(([at, paid, cancelled, expired, voided, held]) =>
      [`${number(at, 2, 2)} s`, number(paid), number(cancelled), number(expired), voids && number(voided), held === undefined ? "–" : number(held)].filter((c) => c !== false)), () => "right"));
  }

  // listed is a table that opens with its summary.
  listed(name, heads, rows, align, note) {
    return el("details", { open: this.table.firstChild?.open ?? false }, el("summary", {}, name),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, el("table", {},
        el("thead", {}, el("tr", {}, heads.map((h, i) => el("th", { scope: "col", class: align(i) }, h)))),
        el("tbody", {}, rows.map((row) => el("tr", {}, row.map((text, i) => el("td", { class: align(i) }, text))))))),
      note && el("p", { class: "soft" }, note));
  }

  drawPairs(model) {
    if (model.pairs.length === 0) {
      replace(this.table, model.sections > 0 && el("p", { class: "soft" }, t("No two critical sections overlapped.")));
      return;
    }
    const heads = [t("at"), t("first inside"), t("entered meanwhile"), t("both inside for")];
    const rows = model.pairs.map((p) => [`${number(Math.max(0, p.at - beganAt(model)) / 1e3, 2, 2)} ms`, who(p.a), who(p.b), `${number(p.by)} µs`]);
    replace(this.table, this.listed(t("Pairs that overlapped"), heads, rows, (i) => (i === 3 ? "right" : null),
      t("The first {n} pairs; # is the number that the replica gave the request.", { n: number(model.pairs.length) })));
  }

  drawVerdict(model) {
    const { run, result } = model;
    const silence = model.silence();
    const state = `${model.marks.length}/${Math.floor(silence.seconds)}/${this.watched}/${run.id}/${run.state}/${run.step.phase}/${run.attempt}/${Boolean(result)}/${Math.round(run.step.done * 50)}`;
    if (state === this.verdictSeen) return;
    this.verdictSeen = state;
    const mode = run.spec.modes[0];
    this.verdict.dataset.run = run.id;
    const other = mode !== this.form.mode;
    const name = el("p", { class: other ? "note" : "eyebrow" }, other && `${model.running ? t("Running now") : t("Last run")}${colon()}`, el("code", {}, mode),
      run.attempt > 1 ? ` · ${t("attempt {n}", { n: run.attempt })}` : "", ours(run) ? "" : ` · ${t("started in another window")}`);
    const happened = this.happened(model, silence);
    if (result) {
      const ran = this.ran(model), color = loadTone(run, result, ran);
      this.verdict.className = `verdict is-${color}`;
      replace(this.verdict, name, el("p", { class: "verdict-line", id: "verdict" }, headline(run, result, ran)), happened,
        tone(result) === "good" && color === "unsure" && breakIt(ran, this.lessons?.find((l) => l.mode === ran.name)), details(result, run));
      return;
    }
    this.verdict.className = "verdict is-none";
    const broken = run.results.find((r) => r.error);
    const text = run.state === "stopped" ? t("Stopped before the end.") : run.state !== "running" ? t("The run failed: {why}", { why: run.error || broken?.error || "" })
      : stage(run);
    const bar = run.state === "running" && el("progress", { max: "1", "aria-label": t("Running …") });
    if (bar) bar.value = run.step.done ?? 0;
    replace(this.verdict, name, el("p", { class: "verdict-line" }, text), happened, bar);
  }

  // happened tells what became of the replicas.
  happened(model, silence) {
    const gone = model.marks.filter((m) => m.what === "gone");
    if (gone.length === 0) return null;
    const says = [t("Lost during the run: {replicas}.", { replicas: [...new Set(gone.map((m) => t("replica {n}", { n: m.replica })))].join(t(", ")) })];
    if (silence.seconds >= 1) {
      says.push(t("Then nobody got an answer for {n} s.", { n: number(silence.seconds, 1) }));
      if (model.bins.some((b) => b[4] !== null)) says.push(t("A dead holder's lock keeps everybody out until it expires."));
    }
    return el("p", { class: "verdict-more is-event" }, says.join(space()));
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

// markText words a mark on the charts.
function markText(m) {
  return { gone: t("replica {n} lost", { n: m.replica }), back: t("replica {n} back", { n: m.replica }), stop: t("stopped") }[m.what];
}

// breakIt leads to the story of the first hazard that breaks a mode, and to its lesson.
function breakIt(mode, lesson) {
  for (const [store, row] of Object.entries(mode.claims ?? {})) {
    const hazard = ladder.find((h) => breaks(h, row[h]));
    if (hazard) {
      return el("p", { class: "verdict-more" }, t("Another hazard breaks it{hazard}.", { hazard: bracketed(`${hazardName(hazard)}${colon()}${outcomeNames(row[hazard])}`) }), space(),
        el("a", { class: "quiet now-break", href: cellAddress(mode.name, store, hazard, row[hazard]) }, t("Now break it")),
        lesson && [space(), el("a", { class: "quiet now-break", href: `#/step/${lesson.name}` }, t("Break it yourself"))]);
    }
  }
  return null;
}

function claim(hazard, outcome, after) {
  const kind = outcome === "." ? "good" : outcome === "" ? (after ? "after" : "blank") : outcome === "–" ? "na" : "bad";
  const says = { good: t("exact"), after: t("broken already"), blank: t("not claimed"), na: t("cannot happen") }[kind] ?? outcomeNames(outcome);
  const sign = { good: "✓", blank: "\u00a0", after: "\u00a0", na: "–" }[kind] ?? outcome;
  return el("li", { class: `claim ${kind}`, title: says }, el("span", { class: "claim-sign", "aria-hidden": "true" }, sign),
    el("span", { class: "claim-name" }, hazardName(hazard)), el("span", { class: "hidden" }, colon() + says));
}
