import { drawButton, keep, kept, numbers, picker, startOrStop } from "./controls.js";
import { el, replace } from "./dom.js";
import { colon, number, t } from "./i18n.js";
import { stage } from "./say.js";
import { headline, loadTone, worst } from "./verdict.js";

const usual = ["unsafe", "mutex", "setnx-ttl", "lua-lock", "handoff", "redis-lua", "sql-for-update", "sql-version", "sql-atomic", "lease-seq", "idempotent", "queue"];

// The columns of the table: the words of the head, what to sort by, and which end comes first.
const columns = [
  { key: "modeColumn", head: () => t("mode"), of: (r) => r.order, up: true },
  { key: "verdictColumn", head: () => t("verdict"), of: (r) => ["bad", "unsure", "good", "none"].indexOf(r.tone), up: true },
  { key: "sold", head: () => t("sold"), of: (r) => r.verdict?.sold ?? -1 },
  { key: "rateColumn", head: () => t("accepted per second"), of: (r) => r.result.accepted_per_second },
  { key: "p50", head: () => t("{p}, ms", { p: "p50" }), of: (r) => r.accepted.p50_ns ?? Infinity, up: true },
  { key: "p99", head: () => t("{p}, ms", { p: "p99" }), of: (r) => r.accepted.p99_ns ?? Infinity, up: true },
];

// CompareView is the page that runs several modes with the same load, one after the other.
export class CompareView {
  constructor(app) {
    this.app = app;
    this.form = { modes: usual, replicas: 0, clients: 40, stock: 1000, ...kept("compare") };
    this.sort = { key: "modeColumn", up: true };
  }

  show(main) {
    const { modes, replicas } = this.app.state;
    const here = (names) => names.filter((n) => modes.some((m) => m.name === n && m.available));
    this.form.modes = here(this.form.modes);
    this.form.replicas = Math.min(this.form.replicas || replicas.length, replicas.length);
    this.button = el("button", { type: "submit", class: "go" });
    this.message = el("p", { class: "message", role: "alert" });
    const choose = (names) => { this.form.modes = here(names); this.keep(); this.show(main); };
    const quick = el("div", { class: "quick" },
      [[t("A few"), usual], [t("All"), modes.map((m) => m.name)], [t("None"), []]].map(([word, names]) =>
        el("button", { type: "button", class: "quiet", click: () => choose(names) }, word)));
    this.stage = el("div", { class: "stage" });
    replace(main, el("div", { class: "run" },
      el("form", { class: "controls tall", submit: (e) => startOrStop(e, this, this.form) }, el("h1", { class: "hidden" }, t("Compare")),
        picker(modes, { several: true, chosen: this.form.modes, more: quick, change: (name, on) => this.choose(name, on) }),
        numbers(this.form, replicas.length, () => this.keep()), this.button, this.message),
      this.stage));
    this.head = el("section", { class: "verdict is-none", "aria-live": "polite" });
    this.table = el("div", { class: "wide-scroll", tabindex: "0", role: "region", "aria-label": t("One load, many modes") });
    this.empty = el("section", { class: "empty" }, el("h2", {}, t("One load, many modes")), el("p", {}, t("Choose the modes and press Run. Each gets the same load on fresh stock, one after the other, and the same judge; a speed without its verdict says nothing.")));
    this.drawn = "";
    this.update();
  }

  choose(name, on) {
    this.form.modes = this.app.state.modes.map((m) => m.name).filter((n) => (n === name ? on : this.form.modes.includes(n)));
    this.keep();
    this.update();
  }

  keep() {
    keep("compare", this.form);
  }

  update() {
    const { model } = this.app, run = model.run?.spec.modes.length > 1 ? model.run : model.compared;
    drawButton(this, t("Run {n} [mode|modes]", { n: number(this.form.modes.length) }), this.form.modes.length > 0);
    const mine = Boolean(run);
    const state = mine ? `${run.id}/${run.state}/${run.results.length}/${run.step.mode}/${run.step.phase}/${Math.round(run.step.done * 20)}/${this.sort.key}${this.sort.up}` : "none";
    if (state === this.drawn) return;
    this.drawn = state;
    if (!mine) {
      replace(this.stage, this.empty);
      return;
    }
    if (this.stage.firstChild?.firstChild !== this.head) replace(this.stage, el("div", { class: "content" }, this.head, this.table));
    this.drawHead(run);
    this.drawTable(run);
  }

  drawHead(run) {
    const rows = rowsOf(run, this.app.state.modes), exact = rows.filter((r) => r.tone === "good").length, load = rows.filter((r) => r.tone === "unsure").length, broken = rows.filter((r) => r.tone === "bad").length;
    const says = t("{n} of {of} [mode|modes] judged: {exact} exact, {load} exact only under this load or unsure, {broken} broken.", { load: number(load), n: number(run.results.length), of: number(run.spec.modes.length), exact: number(exact), broken: number(broken) });
    const now = run.state === "running" ? `${run.step.mode}${colon()}${stage(run)}`
      : run.state === "stopped" ? t("Stopped before the end.") : run.state === "failed" ? t("The run failed: {why}", { why: run.error ?? "" }) : "";
    const bar = run.state === "running" && el("progress", { max: "1", "aria-label": t("Running …") });
    if (bar) bar.value = (run.results.length + (run.step.done ?? 0)) / run.spec.modes.length;
    this.head.dataset.run = run.id;
    replace(this.head, el("p", { class: "verdict-line" }, says), now && el("p", { class: "verdict-more" }, now), bar,
      run.state !== "running" && rows.length > 0 && el("p", {}, el("button", { type: "button", class: "quiet", click: () => save(rows) }, t("Save as CSV"))));
  }

  drawTable(run) {
    const rows = rowsOf(run, this.app.state.modes);
    const column = columns.find((c) => c.key === this.sort.key);
    rows.sort((a, b) => (column.of(a) - column.of(b)) * (this.sort.up ? 1 : -1) || a.order - b.order);
    const fastest = Math.max(1, ...rows.map((r) => r.result.accepted_per_second));
    const focused = document.activeElement?.dataset?.sort;
    replace(this.table, rows.length > 0 && el("table", { class: "compare" },
      el("caption", { class: "hidden" }, t("One load, many modes")),
      el("thead", {}, el("tr", {}, columns.map((c) => el("th", { scope: "col", "aria-sort": c.key !== this.sort.key ? "none" : this.sort.up ? "ascending" : "descending" },
        el("button", { type: "button", class: "sort", "data-sort": c.key, click: () => this.by(c) }, c.head(), el("span", { "aria-hidden": "true" }, c.key !== this.sort.key || c.key === "modeColumn" ? "" : this.sort.up ? " ↑" : " ↓")))))),
      el("tbody", {}, rows.map((r) => this.row(r, fastest)))),
    run.results.filter((r) => !r.result).map((r) => el("p", { class: "note" }, r.mode + colon() + (r.error ?? ""))));
    if (focused) this.table.querySelector(`[data-sort="${focused}"]`)?.focus();
  }

  by(column) {
    this.sort = { key: column.key, up: this.sort.key === column.key ? !this.sort.up : Boolean(column.up) };
    this.update();
  }

  row(r, fastest) {
    const bar = el("span", { class: `bar is-${r.tone}` });
    bar.style.width = `${Math.max(1, (100 * r.result.accepted_per_second) / fastest)}%`;
    const time = (ns) => el("td", { class: "num" }, r.accepted.count > 0 ? number(ns / 1e6, 1, 1) : "–");
    const short = r.verdict?.verdict === "EXACT" || r.verdict?.oversold > 0; // the next column has the numbers
    return el("tr", {},
      el("th", { scope: "row" }, el("a", { href: `#/run/${r.mode}` }, el("code", {}, r.mode))),
      el("td", { class: `said is-${r.tone}` }, el("span", { class: "said-line" }, short ? r.says.split(/\. |\u3002/)[0] : r.says),
        r.result.finding === "contradicted" && el("strong", { class: "note" }, ` ${t("Against its claim!")}`)),
      el("td", { class: "num" }, r.verdict ? t("{sold} of {initial}", { sold: number(r.verdict.sold), initial: number(r.verdict.initial) }) : "–", r.verdict && r.result.holds && el("div", { class: "soft small" }, heldOf(r))),
      el("td", { class: "rate" }, el("span", { class: "rate-number" }, number(r.result.accepted_per_second), r.result.holds && el("span", { class: "soft small" }, ` ${t("paid#rate")}`)), el("span", { class: "bars", "aria-hidden": "true" }, bar)),
      time(r.accepted.p50_ns), time(r.accepted.p99_ns));
  }
}

// stillHeld is what is neither in stock nor sold.
const stillHeld = (v) => Math.max(0, v.initial - v.sold - v.final - (v.written_off ?? 0));

// heldOf tells of a mode that holds units what became of the holds.
function heldOf({ verdict, result: { holds } }) {
  return t("{left} left, {held} held; {n} cancelled, {m} expired", { left: number(verdict.final), held: number(stillHeld(verdict)), n: number(holds.cancelled), m: number(holds.expired) });
}

// rowsOf are the modes that have a result.
function rowsOf(run, modes) {
  const ended = { ...run, state: "ended" }; // a stop takes nothing from the modes that have been judged; a partial result says so itself
  return run.results.filter((s) => s.result).map((s) => {
    const mode = modes.find((m) => m.name === s.mode);
    return { order: s.index, mode: s.mode, result: s.result, verdict: worst(s.result), tone: loadTone(ended, s.result, mode), says: headline(ended, s.result, mode), accepted: s.result.latency?.accepted ?? {} };
  });
}

// save gives the comparison to the reader as a table for other programs; times are in milliseconds.
function save(rows) {
  const all = rows.map(({ mode, result, verdict: v, tone, accepted: a }) => {
    const h = result.holds, ms = (ns) => ((ns ?? 0) / 1e6).toFixed(3);
    return [mode, v ? v.verdict + (v.verdict === "EXACT" && tone === "unsure" ? " under this load" : "") : "", result.partial ? "yes" : "no", v?.sold ?? "", v?.initial ?? "", Math.round(result.accepted_per_second), ms(a.p50_ns), ms(a.p99_ns), v?.final ?? "", ...(h && v ? [stillHeld(v), h.cancelled, h.expired] : ["", "", ""])];
  });
  const text = [["mode", "verdict", "stopped", "sold", "stock", "accepted_per_second", "p50_ms", "p99_ms", "left", "held", "cancelled", "expired"], ...all].map((r) => r.join()).join("\n");
  const href = URL.createObjectURL(new Blob([`${text}\n`], { type: "text/csv" }));
  el("a", { href, download: "lastitem-compare.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}
