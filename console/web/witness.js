import { copier } from "./controls.js";
import { el, replace } from "./dom.js";
import { both, colon, lang, number, space, t, words } from "./i18n.js";
import { Player } from "./player.js";
import { cellAddress, command, cutWords, hazardName, isBroken, outcomeName, outcomeWords } from "./say.js";
import { get } from "./stream.js";

const blocked = words({
  no: "While the holder is stopped, nobody else is blocked.",
  lease: "While the holder is stopped, others are blocked until its lease or session ends.",
  holder: "While the holder is stopped, others are blocked until it runs again.",
});

// WitnessView shows one cell of the matrix: the schedule that broke it, played command by command, or how many were tried in vain.
export class WitnessView {
  constructor(matrix, name) {
    this.matrix = matrix;
    this.name = name;
  }

  async show(main) {
    const { mode, store, fault, letter } = this.name;
    const wanted = location.hash;
    const data = await get(`witness?${new URLSearchParams({ mode, store, fault, letter })}`);
    if (location.hash !== wanted) return;
    const hazard = this.matrix.data.hazards.find((h) => h.name === fault);
    replace(main, el("article", { class: "witness" },
      el("nav", { class: "crumbs", "aria-label": t("Matrix") }, el("a", { href: "#/matrix" }, `← ${t("Matrix")}`), el("span", { class: "soft" }, ` ${mode} · ${store} · ${hazardName(fault)}`)),
      el("h1", { tabindex: "-1" }, this.title(data.cell, letter)), el("p", { class: "lead" }, both(hazard.title)),
      this.claim(data.cell, hazard), this.letters(data.cell, letter),
      data.schedule ? this.story(data) : this.exact(data.cell),
      this.replay(data), this.others()));
  }

  title(cell, letter) {
    const hazard = hazardName(cell.fault);
    if (!letter) return t("{mode} stays exact: {hazard}", { mode: cell.mode, hazard });
    return t("{mode} {outcome}: {hazard}", { mode: cell.mode, hazard, outcome: letter === "A" ? t("loses an acknowledged order") : outcomeName(letter) });
  }

  claim(cell, hazard) {
    const says = hazard.claimed ? t("Claimed: {claim}. Seen: {seen}.", { claim: outcomeWords(cell, cell.claim), seen: outcomeWords(cell, cell.found) }) : t("No mode makes a claim about this hazard.");
    return el("p", { class: "soft" }, says, cell.blocked && space() + blocked(cell.blocked));
  }

  // letters leads to the witnesses of the other letters of the cell.
  letters(cell, letter) {
    if (cell.found.length < 2) return null;
    const { mode, store, fault } = this.name;
    return el("nav", { class: "letters", "aria-label": t("Outcome") }, [...cell.found].map((l) =>
      el("a", { href: `#/matrix/${mode}/${store}/${fault}/${l}`, "aria-current": l === letter ? "page" : null }, el("span", { class: "square is-bad", "aria-hidden": "true" }, l), outcomeName(l))));
  }

  exact(cell) {
    return el("section", { class: "verdict is-good" }, el("p", { class: "verdict-line" }, t("{tried} [schedule was|schedules were] tried, and none broke it. That proves nothing beyond [this schedule|these schedules].", { tried: number(cell.tried) })),
      cell.sampled && el("p", { class: "note" }, t("Only a sample of the schedules was played.")));
  }

  story({ schedule, tale }) {
    if (!tale) return [lanes(), this.cut(schedule), el("p", { class: "note" }, t("This schedule has no recorded story."))];
    this.player = new Player(tale.steps);
    return [lanes(), this.cut(schedule), this.player.box, this.ledger(tale), el("p", { class: "soft small" }, t("Recorded by the lab on real servers. Another run of the schedule has other times and tokens."))];
  }

  // cut says where the schedule holds whom.
  cut(s) {
    const held = ["a", "b", "c"].filter((x) => s[x]);
    return el("section", { class: "cut" }, el("h2", {}, t("Where the request is held")),
      held.length === 0 && el("p", {}, t("Nobody is held: the hazard strikes when the request is done.")),
      held.map((x) => el("p", {}, el("span", { class: `lane-name is-${x}` }, x.toUpperCase()), t("is held"), space(), cutWords(s[x].cut), " ",
        command(`${s[x].server}: ${s[x].pattern}`), s[x].nth > 1 && ` ${t("(number {n} of its kind)", { n: s[x].nth })}`)),
      s.variant && el("p", { class: "soft" }, t("Variant: {name}.", { name: s.variant })), s.expiry === "forced" && el("p", { class: "soft" }, t("The locks are ended at their servers.")));
  }

  ledger(tale) {
    const taken = tale.initial - tale.left;
    const sum = tale.ordered > taken ? t("{n} more ordered than taken from stock", { n: number(tale.ordered - taken) }) : tale.ordered < taken ? t("{n} gone from stock without an order", { n: number(taken - tale.ordered) }) : t("The sums agree; what is wrong is in the orders or the answers.");
    const figure = (name, value) => el("div", { class: "figure" }, el("span", { class: "figure-name" }, name), el("span", { class: "figure-value" }, number(value)));
    return el("section", { class: "ledger" }, el("h2", {}, t("The ledger")),
      el("div", { class: "figures is-three" }, figure(t("at first"), tale.initial), figure(t("left"), tale.left), figure(t("ordered"), tale.ordered)),
      el("p", { class: tale.ordered === taken ? "soft" : "sum-wrong" }, sum),
      tale.why && el("p", { class: "soft" }, t("The judge") + colon(), el("span", { lang: "en" }, tale.why)));
  }

  // replay gives the command that plays it again.
  replay({ cell, schedule, tale }) {
    const all = `shop lab --mode ${cell.mode} --store ${cell.store} --fault ${cell.fault}`;
    if (!schedule) return this.commands([[`${all} --all`, t("plays every schedule of this cell")]]);
    const file = JSON.stringify({ worst: { schedule, outcome: tale?.outcome ?? cell.found } });
    return this.commands([[`shop lab --replay /dev/stdin <<'END'\n${file}\nEND`, t("The lab needs redis-server and mariadbd or mysqld on PATH. It plays the schedule 20 times and says how often it showed the same outcome.")], [`${all} --all`, t("plays every schedule of this cell")]]);
  }

  commands(list) {
    return el("section", { class: "again" }, el("h2", {}, t("Play it again yourself")), list.map(([text, says]) =>
      el("div", { class: "shell" }, el("pre", { tabindex: "0" }, el("code", {}, text)), copier(text), el("p", { class: "soft small" }, says))));
  }

  // others leads to the other cells of the mode, and to its run.
  others() {
    const { mode, store, fault } = this.name;
    const cells = this.matrix.data.hazards.map((h) => this.matrix.at.get([mode, store, h.name].join("/"))).filter((c) => c && c.fault !== fault);
    return el("section", { class: "others" }, el("h2", {}, t("The other hazards of {mode} ({store})", { mode, store })),
      el("ul", {}, cells.map((c) =>
        el("li", {}, el("a", { href: cellAddress(mode, store, c.fault, c.found) },
          el("span", { class: `square is-${isBroken(c.found) ? "bad" : "good"}`, "aria-hidden": "true" }, isBroken(c.found) ? c.found : "✓"), hazardName(c.fault), el("span", { class: "hidden" }, ` ${outcomeWords(c, c.found)}`))))),
      el("p", { class: "links" }, el("a", { href: `#/run/${mode}` }, t("Run {mode}", { mode })), el("a", { href: `#/read/modes/${mode}` }, t("Read about it"))));
  }

  stop() {
    this.player?.stop();
  }
}

// lanes tells what A, B and C are.
const lanes = () => el("p", {}, t("A, B and C are three replicas of the shop, processes that share the servers. Each has a lane below; time runs downwards."));
