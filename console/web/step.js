import { address, Board } from "./step-board.js";
import { decoded, el, replace } from "./dom.js";
import { both, t } from "./i18n.js";
import { get, post } from "./stream.js";

const keptAs = "lastitem.lessons";

// StepView makes the reader the scheduler of two clients: #/step/sell-twice/abaabb is a lesson and the moves so far.
export class StepView {
  constructor(app) {
    this.app = app;
    this.board = new Board(this);
    this.state = null;
    this.error = "";
  }

  async show(main, asked) {
    this.main = main;
    if (!this.app.state.steps) {
      replace(main, el("article", { class: "empty step-empty" }, el("h1", {}, t("You are the scheduler")), el("p", {}, t("Local stack only: this one has no proxies that could hold a command. Run shop play on your own machine.")), el("pre", {}, el("code", {}, "shop play"))));
      return;
    }
    if (!this.lessons) {
      const hash = location.hash;
      this.lessons = (await get("lessons")).lessons;
      if (location.hash !== hash) return; // the reader has gone on
    }
    const [name, moves = ""] = asked.split("/");
    this.lesson = this.lessons.find((l) => l.name === name) ?? this.lessons.find((l) => !this.done(l)) ?? this.lessons[0];
    this.wanted = { lesson: this.lesson.name, moves: this.lesson.name === name ? moves : "" };
    if (this.state?.lesson !== this.lesson.name) this.state = null;
    this.build();
    await this.follow();
  }

  // follow asks the server to play the wanted schedule until the played schedule equals it.
  async follow() {
    if (this.playing) return;
    this.playing = true;
    while (this.wanted && this.app.view === this) {
      const { lesson, moves } = this.wanted;
      this.wanted = null;
      this.board.wait(true);
      try {
        this.error = "";
        const state = await post("step", { lesson, moves });
        if (this.wanted) continue;
        this.state = state;
        if (state.cut) history.replaceState(null, "", address(lesson, state.moves));
        if (state.won >= 0) this.keep(lesson, "won");
      } catch (err) {
        this.error = err.message;
      }
    }
    this.playing = false;
    this.board.wait(false);
    if (this.app.view !== this) return;
    this.marks();
    this.board.draw();
  }

  // go adds moves to those that are played or wanted.
  go(move) {
    location.hash = address(this.lesson.name, this.moves() + move);
  }

  // back takes the last move back.
  back() {
    const moves = this.moves().match(/[ab][hlsckr]?|x/g) ?? [];
    if (moves.length > 0) location.hash = address(this.lesson.name, moves.slice(0, -1).join(""));
  }

  restart() {
    location.hash = address(this.lesson.name, "");
  }

  moves() {
    return this.wanted?.moves ?? decoded(location.hash.split("/")[3] ?? "");
  }

  // claim handles the reader's claim that the aim cannot be reached.
  claim() {
    if (this.lesson.way === "") this.keep(this.lesson.name, "won");
    this.claimed = this.lesson.name;
    this.marks();
    this.board.draw();
  }

  progress() {
    try {
      return JSON.parse(localStorage.getItem(keptAs)) ?? {};
    } catch {
      return {};
    }
  }

  keep(lesson, how) {
    localStorage.setItem(keptAs, JSON.stringify({ ...this.progress(), [lesson]: how }));
  }

  done(lesson) {
    return this.progress()[lesson.name] === "won";
  }

  next() {
    const i = this.lessons.indexOf(this.lesson);
    return [...this.lessons.slice(i + 1), ...this.lessons.slice(0, i)].find((l) => !this.done(l));
  }

  build() {
    if (this.side?.isConnected && this.built === document.documentElement.lang) {
      this.marks();
      this.board.draw();
      return;
    }
    this.built = document.documentElement.lang;
    this.list = el("ol", { class: "lessons" });
    this.count = el("p", { class: "soft small" });
    this.side = el("nav", { class: "controls", "aria-label": t("Lessons") }, el("h2", { class: "eyebrow" }, t("Lessons")), this.list, this.count);
    this.stage = el("div", { class: "stage" });
    replace(this.main, el("div", { class: "run step" }, this.side, this.stage));
    this.marks();
    this.board.build(this.stage);
  }

  // marks draws the list of lessons and marks the completed ones.
  marks() {
    replace(this.list, this.lessons.map((l, i) => el("li", {}, el("a", { href: address(l.name, ""), "aria-current": l === this.lesson ? "page" : null, class: this.done(l) ? "is-done" : "" },
      el("span", { class: "lesson-sign", "aria-hidden": "true" }, this.done(l) ? "✓" : String(i + 1)), el("span", {}, both(l.title), this.done(l) && el("span", { class: "hidden" }, ` (${t("done")})`), el("code", {}, l.mode))))));
    this.count.textContent = t("{n} of {of} done, as this browser remembers.", { n: this.lessons.filter((l) => this.done(l)).length, of: this.lessons.length });
  }
}

