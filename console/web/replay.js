import { el } from "./dom.js";
import { number, t } from "./i18n.js";
import { beganAt } from "./model.js";

const every = 50; // milliseconds between two pictures

// Replay shows a run again, slowly: a scrubber over the events that were recorded, and a drawing whose parts light up with them.
export class Replay {
  constructor(change) {
    this.change = change;
    this.at = null; // microseconds since the load began; null = the end, as the judge saw it
    this.play = el("button", { type: "button", class: "quiet", click: () => this.toggle() });
    this.scrub = el("input", { type: "range", min: "0", max: "1000", value: "1000", "aria-label": t("Moment of the run"), input: () => this.to(Number(this.scrub.value)) });
    this.takes = el("select", { "aria-label": t("The replay takes") }, [5, 10, 20, 60].map((s) => el("option", { value: String(s), selected: s === 10 }, `${s} s`)));
    this.where = el("output", { class: "where" });
    const part = (name, ...words) => el("span", { class: `node node-${name}` }, words);
    this.parts = el("div", { class: "parts", "aria-hidden": "true" });
    this.fixed = [part("clients", t("clients")), part("balancer", t("balancer")), el("span", { class: "part-stack" }), part("store", t("Redis, SQL"))];
    this.box = el("section", { class: "replay", hidden: true, "aria-label": t("Replay") },
      this.parts, el("div", { class: "replay-bar" }, this.play, this.scrub, this.where, el("label", { class: "soft" }, t("The replay takes"), " ", this.takes)));
  }

  reset() {
    clearInterval(this.timer);
    this.timer = 0;
    this.at = null;
  }

  // to shows the run at so many thousandths of it.
  to(share) {
    this.at = share >= 1000 ? null : this.from + (share / 1000) * this.length;
    this.change();
  }

  toggle() {
    if (this.timer) {
      clearInterval(this.timer);
      this.timer = 0;
    } else {
      if (this.at === null) this.at = this.from;
      this.timer = setInterval(() => {
        if (!this.box.isConnected) return this.reset();
        this.at += (this.length * every) / 1000 / Number(this.takes.value);
        if (this.at >= this.from + this.length) this.reset();
        return this.change();
      }, every);
    }
    this.change();
  }

  update(model) {
    this.box.hidden = model.running || model.bins.length === 0;
    this.from = beganAt(model);
    this.length = Math.max(1, model.bins.length * model.width * 1000 - this.from);
    this.play.textContent = this.timer ? t("Pause") : t("Replay slowly");
    const at = this.at ?? this.from + this.length;
    this.scrub.value = String(Math.round(((at - this.from) / this.length) * 1000));
    this.where.textContent = `${number((at - this.from) / 1e3)} ms`;
    this.light(model);
  }

  // light marks the parts of the system that were at work at the moment.
  light(model) {
    const key = model.lanes.join();
    if (this.drawn !== key || !this.parts.firstChild) {
      this.drawn = key;
      const [clients, balancer, stack, store] = this.fixed, arrow = () => el("span", { class: "part-arrow" }, "→");
      this.lanes = model.lanes.map((n) => el("span", { class: "node" }, t("replica {n}", { n })));
      stack.replaceChildren(...this.lanes);
      this.parts.replaceChildren(clients, arrow(), balancer, arrow(), stack, arrow(), store);
    }
    const { at } = this, last = at === null ? -1 : Math.floor(at / 1000 / model.width);
    const near = Math.ceil(this.length / 1000 / model.width / 40); // a part stays lit long enough to be seen
    const busy = model.bins.slice(Math.max(0, last - near), last + 1).some((b) => b[0] + b[1] + b[2] > 0);
    for (const f of this.fixed) f.classList.toggle("is-lit", busy);
    this.lanes.forEach((lane, i) => {
      const name = model.lanes[i], now = at ?? Infinity;
      const mark = model.marks.filter((m) => m.replica === name && m.at <= now).at(-1);
      const inside = at === null ? [] : model.bars.filter((b) => b[0] === i && b[2] <= at && b[3] >= at - this.length / 100);
      lane.classList.toggle("is-gone", mark?.what === "gone");
      lane.classList.toggle("is-lit", inside.length > 0 || busy && model.sections === 0);
      lane.classList.toggle("is-clash", inside.some((b) => b[4]));
    });
  }
}
