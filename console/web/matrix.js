import { el, replace } from "./dom.js";
import { both, number, t } from "./i18n.js";
import { cellAddress, hazardName, isBroken, ladder, outcomeName, outcomeWords } from "./say.js";
import { get } from "./stream.js";
import { WitnessView } from "./witness.js";

// MatrixView shows what the fault lab found for every mode and hazard. A cell of the address, #/matrix/lua-lock/sql/pause/O, is shown by
// a WitnessView.
export class MatrixView {
  constructor(app) {
    this.app = app;
    this.filter = { words: "", store: "", outcome: "", hazards: "claimed" };
  }

  async show(main, asked) {
    this.witness?.stop();
    this.witness = null;
    this.main = main;
    const wanted = location.hash, moved = this.opened !== wanted;
    this.opened = wanted;
    this.data ??= await get("matrix");
    if (location.hash !== wanted) return; // the reader has gone on
    this.at = new Map(this.data.cells.map((c) => [[c.mode, c.store, c.fault].join("/"), c]));
    const [mode, store, fault, letter] = asked.split("/");
    const cell = this.at.get([mode, store, fault].join("/"));
    if (cell) {
      this.left = [mode, store, fault].join("/");
      this.witness = new WitnessView(this, { mode, store, fault, letter: letter ?? (isBroken(cell.found) ? cell.found[0] : "") });
      await this.witness.show(main);
      if (moved) scrollTo(0, 0); // not after a change of the language
      return;
    }
    this.build();
  }

  build() {
    const { filter } = this;
    const pick = (name, label, options) => {
      const select = el("select", { id: `m-${name}`, change: () => { filter[name] = select.value; this.fill(); } },
        options.map(([value, text]) => el("option", { value, selected: filter[name] === value }, text)));
      return el("div", { class: "field" }, el("label", { for: `m-${name}` }, label), select);
    };
    const search = el("input", { type: "search", id: "m-words", value: filter.words, autocomplete: "off", input: () => { filter.words = search.value; this.fill(); } });
    this.about = el("p", { class: "soft small" });
    this.count = el("p", { class: "soft", role: "status" });
    this.body = el("div", { class: "grid-scroll", role: "region", "aria-label": t("What breaks what"), tabindex: "0" });
    this.body.addEventListener("pointerover", (e) => this.explain(e));
    this.body.addEventListener("focusin", (e) => this.explain(e));
    this.body.addEventListener("keydown", (e) => this.key(e));
    replace(this.main, el("div", { class: "run matrix" },
      el("form", { class: "controls", submit: (e) => e.preventDefault() },
        el("div", { class: "field" }, el("label", { for: "m-words" }, t("Filter by mode")), search),
        pick("hazards", t("Hazards"), [["claimed", t("those that modes make claims about")], ["beyond", t("all others")],
          ...this.data.hazards.map((h) => [h.name, hazardName(h.name)])]),
        pick("outcome", t("Show"), [["", t("all")], ["broken", t("broken")], ["exact", t("exact#cells")], ...outcomeName.names.map((l) => [l, `${l}  ${outcomeName(l)}`])]),
        pick("store", t("Store"), [["", t("all")], ...["redis", "sql", "etcd"].map((s) => [s, s])]),
        this.about, el("details", { class: "legend-box", open: matchMedia("(min-width: 861px)").matches }, el("summary", {}, t("Signs")), legend())),
      el("div", { class: "stage" },
        el("h1", {}, t("What breaks what")), el("p", { class: "lead" }, t("Every mode under every hazard, as the fault lab found it on real servers: a request is stopped at each of its commands, the hazard strikes there, others are served, and a judge reads the ledger. Open a cell to see the schedule that broke it.")), this.count, this.body, el("p", { class: "soft keys" }, t("Arrow keys move between the cells, Enter opens one.")))));
    this.fill();
    this.body.querySelector(`a[data-cell="${CSS.escape(this.left ?? "")}"]`)?.focus();
  }

  again() {
    this.witness?.again?.();
  }

  // columns are the hazards that the filter wants.
  columns() {
    const { hazards } = this.filter;
    return this.data.hazards.filter((h) => (hazards === "claimed" ? h.claimed : hazards === "beyond" ? !h.claimed : h.name === hazards));
  }

  // rows are the modes and stores that the filter wants, each with the cells of the columns.
  rows(columns) {
    const { words: text, store, outcome } = this.filter;
    const wanted = text.trim().toLowerCase();
    const fits = (found) => outcome === "" || (outcome === "broken" ? isBroken(found) : outcome === "exact" ? found === "." : found?.includes(outcome));
    const all = [];
    for (const m of this.app.state.modes) {
      if (m.baseline || !`${m.name} ${m.title.en} ${m.title.zh}`.toLowerCase().includes(wanted)) continue;
      for (const s of m.stores) {
        if (store && s !== store) continue;
        const cells = columns.map((h) => {
          const cell = this.at.get([m.name, s, h.name].join("/"));
          const earlier = ladder.slice(0, Math.max(0, ladder.indexOf(h.name)));
          return { h, cell, found: cell ? cell.found : m.claims?.[s]?.[h.name] ?? "", after: earlier.some((x) => isBroken(m.claims?.[s]?.[x])) };
        });
        if (cells.some((c) => (c.cell || outcome !== "") && fits(c.found)) || (outcome === "" && columns[0]?.claimed)) all.push({ m, store: s, cells, fits });
      }
    }
    return all;
  }

  fill() {
    const columns = this.columns(), rows = this.rows(columns);
    const shown = rows.flatMap((r) => r.cells).filter((c) => c.cell);
    this.count.textContent = shown.length === 0 ? t("No cell fits.") : t("{cells} [cell|cells], {broken} broken, {schedules} [schedule|schedules] played.", {
      cells: number(shown.length), broken: number(shown.filter((c) => isBroken(c.found)).length), schedules: number(shown.reduce((n, c) => n + c.cell.tried, 0)),
    });
    this.about.textContent = columns.length === 1 ? both(columns[0].title) : "";
    this.body.hidden = rows.length === 0;
    const head = el("tr", {}, el("th", { scope: "col", class: "grid-mode" }, t("mode")), el("th", { scope: "col" }, t("store")),
      columns.map((h) => el("th", { scope: "col", class: "grid-hazard", title: both(h.title) }, el("span", {}, hazardName(h.name)))));
    const body = rows.map((r, i) => el("tr", { class: i > 0 && rows[i - 1].m !== r.m ? "grid-next" : null },
      el("th", { scope: "row", class: "grid-mode" }, el("code", {}, r.m.name), el("span", { class: "soft only-narrow", "aria-hidden": "true" }, r.store)), el("td", { class: "soft" }, r.store),
      r.cells.map((c) => el("td", { class: "grid-cell" }, square(r, c)))));
    replace(this.body, el("table", { class: `grid ${columns.length > 12 ? "is-many" : ""}` }, el("thead", {}, head), el("tbody", {}, body)));
  }

  // explain says below the filters what the column of a cell or head is about.
  explain(e) {
    const h = this.columns()[(e.target.closest("td, th")?.cellIndex ?? 0) - 2];
    if (h) this.about.textContent = both(h.title);
  }

  // key moves between the cells.
  key(e) {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
    const cell = e.target.closest("td.grid-cell");
    if (!by || !cell) return;
    e.preventDefault();
    const rows = [...this.body.querySelectorAll("tbody tr")];
    let y = rows.indexOf(cell.parentElement), x = cell.cellIndex;
    for (;;) {
      y += by[0];
      x += by[1];
      const next = rows[y]?.cells[x];
      if (!next || !next.classList.contains("grid-cell")) return;
      const link = next.querySelector("a");
      if (link) {
        link.focus();
        return;
      }
    }
  }
}

// square is what stands in a cell.
function square(row, { h, cell, found, after }) {
  const says = outcomeWords(cell, found);
  const label = t("{mode}, {store}, {hazard}: {outcome}", { mode: row.m.name, store: row.store, hazard: hazardName(h.name), outcome: says });
  const kind = found === "" && after ? "after" : isBroken(found) ? "bad" : found === "." ? "good" : "none";
  const faint = row.fits(found) ? "" : "is-faint";
  const sign = found === "." ? "✓" : found;
  if (!cell) return el("span", { class: `square is-${kind} is-unplayed ${faint}`, title: says }, el("span", { "aria-hidden": "true" }, sign), el("span", { class: "hidden" }, says));
  const name = isBroken(found) ? `${found}: ${label}` : label; // what is seen is part of the name
  return el("a", { class: `square is-${kind} ${faint}`, href: cellAddress(row.m.name, row.store, h.name, found), title: says, "aria-label": name,
    "data-cell": [row.m.name, row.store, h.name].join("/") }, sign);
}

function legend() {
  const item = (kind, sign, text) => el("li", {}, el("span", { class: `square is-${kind}`, "aria-hidden": "true" }, sign), text);
  return el("ul", { class: "matrix-legend", "aria-label": t("Signs") }, item("good", "✓", t("exact")), outcomeName.names.map((l) => item("bad", l, outcomeName(l))),
    item("good is-unplayed", "✓", t("claimed, and covered by Go tests; the lab cannot play it")), item("none", "–", t("cannot happen to this mode")), item("after", "", t("broken already by an earlier hazard")), item("none", "", t("not played: out of its reach")));
}
