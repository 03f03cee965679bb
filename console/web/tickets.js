// Tickets that were won in Redis and whose orders are written later: some of their lives, and a look at both stores.
import { copier } from "./controls.js";
import { el, replace } from "./dom.js";
import { duration, number, space, t, words } from "./i18n.js";

const mostLives = 40;

const stateWord = words({ sold: "sold", refused: "refused", failed: "failed", same: "the order of its key stands" });

export const lifeHeads = () => [t("won"), t("read"), t("written in SQL"), t("ended"), t("in flight for"), t("end"), t("ticket")];

// lives are rows of some tickets, the last that was won first: when and by which replica it was won, and how long after the step before each
// other step came.
export function lives({ bars, lanes }, began) {
  const all = bars.flatMap(([lane, , read, ended, , , committed, some = []]) => some.map(([by, id, won, state, times]) => ({ lane, read, ended, committed, by, id, won, state, times })));
  const after = (us) => `+${duration(1000 * Math.max(0, us))}`, replica = (lane) => t("replica {n}", { n: lanes[lane] });
  return all.sort((a, b) => b.won - a.won).slice(0, mostLives).map((l) => [
    `${number(Math.max(0, l.won - began) / 1e3, 2, 2)} ms · ${replica(l.by)}`,
    `${after(l.read - l.won)} · ${replica(l.lane)}${l.times > 1 ? ` · ${t("delivered {n} times", { n: number(l.times) })}` : ""}`,
    after(l.committed - l.read), after(l.ended - l.committed), duration(1000 * Math.max(0, l.ended - l.won)), stateWord(l.state), `…${l.id.slice(-6)}`,
  ]);
}

// lookPanel shows the last look at a product that is sold by tickets, and has a button for another one.
export function lookPanel(look) {
  const button = el("button", { type: "button", class: "quiet", click: look }, t("Look now")), found = el("div", { class: "look-found", "aria-live": "polite" });
  return {
    box: el("section", { class: "product-list look" }, el("h2", {}, t("Redis and SQL, at one moment"), space(), button),
      el("p", { class: "soft" }, t("A unit is won in Redis, the front, and sold in SQL, the book: the book has what the front has and what is in flight. A look stops the commits of the product for a few milliseconds, and no win.")), found),
    // draw shows what a look has found, or why it could not; product is the id, and when a text.
    draw(d, product, when) {
      if (d?.done && this.shown !== d.done) replace(found, el("p", { class: "soft small" }, when), d.done.said && "drift" in d.done.said ? differences(d.done.said, product) : el("p", { class: "message" }, d.done.said?.detail ?? d.done.said?.title ?? d.done.lost));
      if (!d) replace(found);
      this.shown = d?.done;
    },
  };
}

// differences are the figures of a look, what they mean, and what can be done.
function differences(r, product) {
  const sold = r.drift - r.book + r.front + r.in_flight, stuck = r.stuck ?? 0; // sold in SQL, and Redis is still to be told
  const figures = [[t("front"), r.front], [t("in flight"), r.in_flight, r.in_flight > 0 && t("the oldest for {age}", { age: duration(r.oldest_ms * 1e6) }), sold > 0 && t("{n} of them sold in the book", { n: number(sold) })],
    [t("book"), r.book], [t("drift"), r.drift, r.drift !== 0 && t("leaked {n}, forgotten {m}", { n: number(r.leaked), m: number(r.forgotten) })]];
  const means = [r.drift === 0 && t("Both sides agree."),
    r.drift !== 0 && r.leaked !== 0 && t("Leaked {n}: the front has lost so many units, which nobody can buy (below zero: has too many). Somebody has changed it, or what is in flight, by hand.", { n: number(r.leaked) }),
    r.drift !== 0 && r.forgotten !== 0 && t("Forgotten {n}: SQL has sold or held so many units and Redis does not know of it, after a failover of Redis, or because a mode in SQL did it. They are promised once more: as many later tickets end as refused.", { n: number(r.forgotten) }),
    stuck !== 0 && t("Stuck {n}: so many tickets have no entry in the stream, so that nobody writes their orders (below zero: entries without a ticket).", { n: number(stuck) })];
  const command = `shop reconcile --product ${product} --repair`;
  return [el("div", { class: "figures" }, figures.map(([name, value, ...notes]) => el("div", { class: `figure${name === t("drift") && value !== 0 ? " is-bad" : ""}` }, el("span", { class: "figure-name" }, name), el("span", { class: "figure-value" }, number(value)), notes.filter(Boolean).map((note) => el("span", { class: "figure-note" }, note))))),
    el("p", {}, means.filter(Boolean).join(space())),
    r.drift !== 0 && el("p", {}, t("This adds the drift to the front, once, if two looks agree, and never changes SQL (with --url if the shop is not at localhost:8080):"), space(), el("code", {}, command), space(), copier(command))];
}
