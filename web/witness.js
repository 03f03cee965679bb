import { el, replace } from "./dom.js";
import { both, colon, lang, number, space, t } from "./i18n.js";
import { Player } from "./player.js";
import { command, hazardName, outcomeWords } from "./say.js";
import { get } from "./stream.js";

const verbs = { O: "oversoldVerb", L: "lostVerb", D: "doubleVerb", X: "stuckVerb", A: "ackVerb" };

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
      el("nav", { class: "crumbs", "aria-label": t("matrix") }, el("a", { href: "#/matrix" }, `← ${t("back")}`), el("span", { class: "soft" }, ` ${mode} · ${store} · ${hazardName(fault)}`)),
      el("h1", { tabindex: "-1" }, this.title(data.cell, letter)), el("p", { class: "lead" }, both(hazard.title)),
      this.claim(data.cell, hazard), this.letters(data.cell, letter),
      data.schedule ? this.story(data) : this.exact(data.cell),
      this.replay(data), this.others()));
  }

  title(cell, letter) {
    const hazard = hazardName(cell.fault);
    if (!letter) return t("wExact", { mode: cell.mode, hazard });
    return t("wBreaks", { mode: cell.mode, hazard, outcome: verbs[letter] ? t(verbs[letter]) : letter });
  }

  claim(cell, hazard) {
    const says = hazard.claimed ? t("claimTitle", { mode: cell.mode, claim: outcomeWords(cell, cell.claim) }) : t("claimNone");
    return el("p", { class: "soft" }, says, cell.blocked && space() + t(`blocked_${cell.blocked}`));
  }

  // letters leads to the witnesses of the other letters of the cell.
  letters(cell, letter) {
    if (cell.found.length < 2) return null;
    const { mode, store, fault } = this.name;
    return el("nav", { class: "letters", "aria-label": t("wOtherLetters") }, [...cell.found].map((l) =>
      el("a", { href: `#/matrix/${mode}/${store}/${fault}/${l}`, "aria-current": l === letter ? "page" : null }, el("span", { class: "square is-bad", "aria-hidden": "true" }, l), verbs[l] ? t(l) : l)));
  }

  exact(cell) {
    return el("section", { class: "verdict is-good" }, el("p", { class: "verdict-line" }, t("wExactText", { tried: number(cell.tried) })),
      cell.sampled && el("p", { class: "note" }, t("wSampled")));
  }

  story({ schedule, tale }) {
    if (!tale) return [this.cut(schedule), el("p", { class: "note" }, t("wNoStory"))];
    this.player = new Player(tale.steps);
    return [this.cut(schedule), this.player.box, this.ledger(tale), el("p", { class: "soft small" }, t("wRecorded"))];
  }

  // cut says where the schedule holds whom.
  cut(s) {
    const held = ["a", "b", "c"].filter((x) => s[x]);
    return el("section", { class: "cut" }, el("h2", {}, t("wCutA")),
      held.length === 0 && el("p", {}, t("wAtEnd")),
      held.map((x) => el("p", {}, el("span", { class: `lane-name is-${x}` }, x.toUpperCase()), t("wHeldAt"), space(), t(`cut_${s[x].cut}`), " ",
        command(`${s[x].server}: ${s[x].pattern}`), s[x].nth > 1 && ` ${t("wNth", { n: s[x].nth })}`)),
      s.variant && el("p", { class: "soft" }, t("wVariant", { name: s.variant })), s.expiry === "forced" && el("p", { class: "soft" }, t("wForced")));
  }

  ledger(tale) {
    const taken = tale.initial - tale.left;
    const sum = tale.ordered > taken ? t("ledgerOver", { n: number(tale.ordered - taken) }) : tale.ordered < taken ? t("ledgerLeak", { n: number(taken - tale.ordered) }) : t("ledgerBalanced");
    const figure = (name, value) => el("div", { class: "figure" }, el("span", { class: "figure-name" }, t(name)), el("span", { class: "figure-value" }, number(value)));
    return el("section", { class: "ledger" }, el("h2", {}, t("ledger")),
      el("div", { class: "figures is-three" }, figure("ledgerInitial", tale.initial), figure("ledgerLeft", tale.left), figure("ledgerOrdered", tale.ordered)),
      el("p", { class: tale.ordered === taken ? "soft" : "sum-wrong" }, sum),
      tale.why && el("p", { class: "soft" }, t("judgeSays") + colon(), el("span", { lang: "en" }, tale.why)));
  }

  // replay gives the command that plays it again.
  replay({ cell, schedule, tale }) {
    const all = `shop lab --mode ${cell.mode} --store ${cell.store} --fault ${cell.fault}`;
    if (!schedule) return this.commands([[`${all} --all`, t("againAll")]]);
    const file = JSON.stringify({ worst: { schedule, outcome: tale?.outcome ?? cell.found } });
    return this.commands([[`shop lab --replay /dev/stdin <<'END'\n${file}\nEND`, t("againText")], [`${all} --all`, t("againAll")]]);
  }

  commands(list) {
    return el("section", { class: "again" }, el("h2", {}, t("again")), list.map(([text, says]) => {
      const button = el("button", { type: "button", class: "quiet", click: async () => {
        await navigator.clipboard.writeText(text);
        button.textContent = t("copied");
        setTimeout(() => (button.textContent = t("copy")), 1500);
      } }, t("copy"));
      return el("div", { class: "shell" }, el("pre", { tabindex: "0" }, el("code", {}, text)), button, el("p", { class: "soft small" }, says));
    }));
  }

  // others leads to the other cells of the mode, and to its run.
  others() {
    const { mode, store, fault } = this.name;
    const cells = this.matrix.data.hazards.map((h) => this.matrix.at.get([mode, store, h.name].join("/"))).filter((c) => c && c.fault !== fault);
    return el("section", { class: "others" }, el("h2", {}, t("wOtherCells", { mode, store })),
      el("ul", {}, cells.map((c) => {
        const broken = c.found !== ".";
        return el("li", {}, el("a", { href: `#/matrix/${mode}/${store}/${c.fault}${broken ? `/${c.found[0]}` : ""}` },
          el("span", { class: `square is-${broken ? "bad" : "good"}`, "aria-hidden": "true" }, broken ? c.found : "✓"), hazardName(c.fault), el("span", { class: "hidden" }, ` ${outcomeWords(c, c.found)}`)));
      })),
      el("p", { class: "links" }, el("a", { href: `#/run/${mode}` }, t("runMode", { mode })), el("a", { href: `#/read/modes/${mode}` }, t("readMode"))));
  }

  stop() {
    this.player?.stop();
  }
}

