import { el, replace } from "./dom.js";
import { space, t, words } from "./i18n.js";
import { command, cutWords, waited } from "./say.js";

const lanes = ["A", "B", "C"];
const stepEvery = 900; // milliseconds, while it plays
const gap = 50; // milliseconds without a step that are worth a line

// What a replica does after an event, where that changes.
const turns = {
  held: { held: 1 }, passed: { held: -1 }, paused: { paused: true }, resumed: { paused: false }, killed: { dead: true, busy: 0, held: 0 }, ended: { dead: true, busy: 0, held: 0 },
};

// asking are a client's requests, grave the events that are drawn as what went wrong.
const asking = ["asked", "reserves", "pays", "cancels", "extends", "returns", "adjusts"];
const grave = ["killed", "broken", "lost", "failover", "database-killed", "session-ended", "server", "terminated"];

// Player plays the steps of a tale on three lanes: forwards by itself, or step by step with the keys.
export class Player {
  constructor(steps) {
    this.steps = steps.map(([at, actor, event, text]) => ({ at, actor, event, text }));
    this.now = 0;
    this.rows = this.draw();
    const button = (name, sign, act) => el("button", { type: "button", class: "quiet step-button", "aria-label": name, title: name, click: act }, sign);
    this.playButton = button(t("Play"), "▶", () => this.toggle());
    this.slider = el("input", { type: "range", min: "0", max: String(this.steps.length), "aria-label": t("Step#number"), input: () => { this.stop(); this.go(Number(this.slider.value)); } });
    this.where = el("span", { class: "soft where" });
    this.said = el("p", { class: "hidden", "aria-live": "polite" });
    this.list = el("ol", { class: "story" }, this.rows.flat());
    this.box = el("section", { class: "player", keydown: (e) => this.key(e) },
      el("div", { class: "player-bar" }, button(t("To the start"), "⇤", () => this.jump(0)), button(t("Step back"), "←", () => this.jump(this.now - 1)), this.playButton,
        button(t("Step on"), "→", () => this.jump(this.now + 1)), button(t("To the end"), "⇥", () => this.jump(this.steps.length)), this.slider, this.where),
      el("div", { class: "story-box", tabindex: "0", role: "group", "aria-label": t("Arrow keys step, space plays and pauses.") },
        el("div", { class: "story-head", "aria-hidden": "true" }, el("span", {}, "ms"), lanes.map((l) => el("span", { class: `lane-name is-${l.toLowerCase()}` }, l))), this.list),
      this.said, el("p", { class: "soft keys" }, t("Arrow keys step, space plays and pauses.")));
    this.go(this.steps.length, true);
  }

  // draw makes the rows: one for each step, and one where nothing happened for long.
  draw() {
    const state = Object.fromEntries(lanes.map((l) => [l, { busy: 0, held: 0, paused: false, dead: false }]));
    let before = 0;
    return this.steps.map((s, i) => {
      const rows = [];
      if (s.at - before > gap) rows.push(el("li", { class: "story-gap", "aria-hidden": "true" }, el("span"), rails(state), el("span", { class: "gap-text" }, t("{n} later", { n: waited(s.at - before) }))));
      before = s.at;
      turn(state[s.actor], s.event);
      rows.push(el("li", { class: `story-row lane-${s.actor.toLowerCase()} ${s.event === "" ? "is-command" : grave.includes(s.event) ? "is-grave" : ["answered", "busy", ...asking].includes(s.event) ? "is-client" : "is-lab"}`,
        click: () => this.jump(i + 1) },
      el("span", { class: "story-at" }, s.at.toFixed(1)), rails(state), el("span", { class: "story-text" }, el("span", { class: "hidden" }, `${s.actor}: `), says(s))));
      return rows;
    });
  }

  // go shows the story up to a step.
  go(n, quiet = false) {
    this.now = Math.max(0, Math.min(this.steps.length, n));
    this.rows.forEach((rows, i) => {
      for (const row of rows) {
        row.classList.toggle("is-ahead", i >= this.now);
        row.classList.toggle("is-now", i === this.now - 1 && this.now < this.steps.length);
      }
      rows.at(-1).setAttribute("aria-current", i === this.now - 1 ? "step" : "false");
    });
    this.slider.value = String(this.now);
    this.where.textContent = `${this.now} / ${this.steps.length}`;
    if (quiet) return;
    const s = this.steps[this.now - 1];
    this.slider.setAttribute("aria-valuetext", t("Step {n} of {of}", { n: this.now, of: this.steps.length }));
    this.said.textContent = s ? `${s.actor}: ${says(s).textContent ?? says(s)}` : t("Before the first step");
    this.rows[this.now - 1]?.at(-1).scrollIntoView({ block: "nearest" });
  }

  jump(n) {
    this.stop();
    this.go(n);
  }

  toggle() {
    if (this.timer) {
      this.stop();
      return;
    }
    if (this.now === this.steps.length) this.go(0);
    this.timer = setInterval(() => {
      this.go(this.now + 1);
      if (this.now === this.steps.length || !this.box.isConnected) this.stop();
    }, stepEvery);
    this.face();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.face();
  }

  // face is the sign on the button.
  face() {
    const name = this.timer ? t("Pause") : t("Play");
    replace(this.playButton, this.timer ? "❚❚" : "▶");
    this.playButton.setAttribute("aria-label", name);
    this.playButton.title = name;
  }

  key(e) {
    if (e.target === this.slider || e.ctrlKey || e.metaKey || e.altKey) return;
    const does = {
      ArrowRight: () => this.jump(this.now + 1), ArrowDown: () => this.jump(this.now + 1), ArrowLeft: () => this.jump(this.now - 1), ArrowUp: () => this.jump(this.now - 1),
      Home: () => this.jump(0), End: () => this.jump(this.steps.length), " ": () => this.toggle(),
    }[e.key];
    if (!does || e.key === " " && e.target.tagName === "BUTTON") return;
    e.preventDefault();
    does();
  }
}

// turn changes what a replica does.
function turn(s, event) {
  if (asking.includes(event)) Object.assign(s, { busy: s.busy + 1, dead: false });
  else if (event === "answered") s.busy = Math.max(0, s.busy - 1);
  const { held, ...rest } = turns[event] ?? {};
  Object.assign(s, rest);
  if (held !== undefined) s.held = Math.max(0, held === 0 ? 0 : s.held + held);
}

// rails are the lanes beside a step.
function rails(state) {
  return lanes.map((l) => {
    const s = state[l];
    const kind = s.dead ? "dead" : s.paused ? "paused" : s.held > 0 ? "held" : s.busy > 0 ? "busy" : "idle";
    return el("span", { class: `rail rail-${l.toLowerCase()} is-${kind}`, "aria-hidden": "true" });
  });
}

// What a step of the story was, by its name there.
const eventWords = words({
  asked: "a client asks", reserves: "a client reserves a unit", pays: "a client pays", cancels: "a client cancels",
  extends: "a client extends", returns: "units are returned", adjusts: "the stock is adjusted",
  held: "held", passed: "goes on", blocked: "blocked", paused: "stopped (SIGSTOP)",
  resumed: "runs again (SIGCONT)", killed: "killed (SIGKILL)", broken: "its connection breaks",
  lost: "the answer is lost", failover: "failover", terminated: "receives SIGTERM", ended: "has exited",
  "session-ended": "its session is ended in", "database-killed": "the database is killed (SIGKILL)",
  "database-back": "the database is back", "rows-locked": "another transaction locks rows of",
  "rows-free": "the row locks are released", "read-only": "the database is read-only",
  "writable-again": "the database accepts writes again", server: "server:",
});

// says words a step.
function says({ event, text }) {
  if (event === "") return command(text);
  if (event === "busy") return t("asks {n} [time|times], and is refused each time: lock_busy", { n: text });
  if (event === "answered") return el("span", {}, t("answer:"), space(), answer(text));
  const word = eventWords(event);
  if (/^(before|after|on the way of) /.test(text)) return el("span", {}, word, space(), place(text));
  return el("span", {}, word, text && !word.endsWith("\uff1a") && " ", text && el("span", { class: "plain" }, text.replace(/\blane\d+:/g, "")));
}

const outcomes = words({ ok: "ok", refused: "refused#outcome", declined: "declined", unknown: "unknown" });

// answer words an answer: "declined lock_busy" is an outcome and a code.
function answer(text) {
  const [outcome, code] = text.split(" ");
  return el("span", { class: "plain" }, outcomes(outcome), code && ` ${code}`);
}

// place words a position that a story names: "before redis: GET stock:{#}".
function place(text) {
  const [, how, rest] = /^(before|after|on the way of) ([^]*)$/.exec(text);
  return el("span", {}, cutWords({ before: "command", after: "answer", "on the way of": "severed" }[how]), " ", command(rest));
}
