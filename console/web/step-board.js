import { el, replace } from "./dom.js";
import { both, colon, lang, t, words } from "./i18n.js";
import { command } from "./say.js";
import { stores } from "./step-stores.js";
import { get } from "./stream.js";

// address is the fragment of a schedule.
export const address = (lesson, moves) => `#/step/${lesson}${moves ? `/${moves}` : ""}`;

// The verbs of a client, as the moves of a schedule have them. The first is the big button.
const verbs = ["h", "l", "s", "c", "k", "r"];

// What a verb is called, what was done with it, and the phases of a client, with what is said if it has no command then.
const does = words({
  "": "Let it pass", deliver: "Deliver the answer", h: "Hold the answer", l: "Lose the answer", s: "Stop#process",
  c: "Resume", k: "Kill", r: "Ask again",
});
const did = words({
  h: "executed; the answer is held", l: "executed; the answer is lost", s: "is stopped (SIGSTOP)",
  c: "runs again (SIGCONT)", k: "is killed (SIGKILL)", r: "asks again, with the same key",
  x: "Every lock with a TTL expires",
});
const phases = words({
  held: "is held before", executed: "was executed, the answer is held", waiting: "waits for its answer",
  idle: "has nothing to write", answered: "has its answer", dead: "killed (SIGKILL)", stopped: "stopped (SIGSTOP)",
});
const without = words({
  held: "nothing", executed: "nothing", waiting: "The server keeps it waiting: the other client holds the row's lock.",
  idle: "It looks for tickets now and then.", answered: "no answer", dead: "Its process is gone. Any lock that it holds in Redis stays.",
});
const answers = words({
  ok: "sold#answer", confirm: "paid", cancel: "cancelled", reserve: "reserved#answer", refused: "refused", declined: "turned away", unknown: "no answer: unknown",
});

// What the clients ask for in a lesson about a reservation.
const wants = words({ confirm: "pays", cancel: "cancels", reserve: "reserves" });

// Board draws where a schedule has led: the lesson, the two clients, the moves, and what the stores hold.
export class Board {
  constructor(view) {
    this.view = view;
    this.shown = -1; // the step whose stores are shown; -1 = the last
    document.addEventListener("keydown", (e) => this.key(e)); // of the page: on arrival nothing on the board has the focus
  }

  build(stage) {
    this.said = el("p", { class: "hidden", "aria-live": "polite" });
    this.head = el("header", { class: "lesson-head" });
    this.end = el("div", { role: "status" });
    this.clients = el("div", { class: "clients" });
    this.tools = el("div", { class: "step-tools" });
    this.steps = el("section", { class: "steps", "aria-label": t("Your schedule") });
    this.stores = el("section", { class: "stores", "aria-label": t("What the stores hold") });
    this.code = el("details", { class: "code-steps", open: true });
    this.right = el("div", {}, this.code, this.steps);
    this.box = el("article", { class: "board", tabindex: "0", "aria-label": t("The board. A and B let a client pass one command, X expires locks, U takes a move back.") }, this.clients, this.tools, el("div", { class: "board-halves" }, this.stores, this.right));
    replace(stage, this.head, this.end, this.box, this.said);
    this.lines = null;
    this.draw();
  }

  wait(on) {
    this.box?.classList.toggle("is-waiting", on);
    this.box?.setAttribute("aria-busy", String(on));
  }

  key(e) {
    if (!this.box?.isConnected || !this.view.state || e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.("input, select, textarea")) return;
    const move = e.key.toLowerCase();
    const client = this.view.state.clients.find((c) => c.name.toLowerCase() === move);
    if (client) this.view.go(client.can.includes("r") && !this.view.playing ? `${move}r` : move);
    else if (move === "x") this.view.go(move);
    else if (move === "u" || e.key === "Backspace") this.view.back();
    else return;
    e.preventDefault();
  }

  // draw shows the state; the focus stays on the button that had it.
  draw() {
    if (!this.head?.isConnected) return;
    const focus = document.activeElement?.dataset?.does;
    const { lesson, state, error } = this.view;
    const i = this.view.lessons.indexOf(lesson);
    replace(this.head, el("p", { class: "eyebrow" }, t("Lesson {n} of {of}", { n: i + 1, of: this.view.lessons.length }), " · ", el("a", { href: `#/read/modes/${lesson.mode}` }, el("code", {}, lesson.mode))),
      el("h1", {}, both(lesson.title)), el("p", { class: "lead" }, both(lesson.story)), el("p", { class: `aim ${state?.won >= 0 ? "is-reached" : ""}` }, el("span", { class: "aim-sign", "aria-hidden": "true" }), el("span", {}, el("strong", {}, t("Aim")), both(lesson.aim))));
    const failed = error && el("p", { class: "message" }, t("The servers could not play this schedule: {why}", { why: error }));
    this.box.hidden = !state;
    if (!state) {
      replace(this.end, failed || this.starting());
      this.drawCode();
      return;
    }
    clearInterval(this.counting);
    this.right.prepend(this.code);
    replace(this.end, failed || null, this.ending());
    this.shown = state.steps.length - 1;
    replace(this.clients, state.clients.map((c) => this.client(c)));
    this.drawTools();
    this.drawCode();
    this.drawSteps();
    this.drawStores();
    this.said.textContent = state.steps.length > 0 ? this.says(state.steps.at(-1)) : "";
    if (focus) (this.box.querySelector(`[data-does="${focus}"]:not(:disabled)`) ?? this.box).focus();
  }

  // starting is what stands there until the servers run: what is awaited and for how long, and what the mode does.
  starting() {
    clearInterval(this.counting);
    const since = performance.now(), passed = el("span", { class: "soft", "aria-hidden": "true" });
    const count = () => { passed.textContent = `${Math.floor((performance.now() - since) / 1000)} s`; };
    this.counting = setInterval(() => (passed.isConnected ? count() : clearInterval(this.counting)), 1000);
    count();
    return [el("p", { class: "soft starting" }, t("Starting Redis, a database and three replicas, and bringing both clients to their first command. That takes 2 to 20 seconds. Read meanwhile what each of them is about to do."), " ", passed),
      el("progress", { "aria-label": t("Starting …") }), this.code];
  }

  client(c) {
    const letter = c.name.toLowerCase(), { asks } = this.view.lesson, consumes = this.view.lesson.consumers?.includes(letter);
    const idle = consumes && c.phase === "waiting" && !c.command;
    const main = c.can.includes("r") ? "r" : "";
    const button = (verb) => el("button", { type: "button", class: verb === main ? `go pass ${main && "is-again"}` : "quiet", disabled: !c.can.includes(verb), "data-does": letter + verb, click: () => this.view.go(letter + verb) },
      does(verb === "" && c.phase === "executed" ? "deliver" : verb), verb === main && el("kbd", { "aria-hidden": "true" }, c.name));
    const known = this.known();
    const seen = main ? [] : verbs.filter((v) => v === "c" ? c.stopped : v !== "r" && known.has(v) && (v !== "s" || !c.stopped));
    return el("section", { class: `client is-${letter} phase-${c.stopped ? "stopped" : c.phase}`, "aria-label": t("Client {name}", { name: c.name }) },
      el("h2", {}, el("span", { class: `lane-name is-${letter}` }, c.name), el("span", { class: "phase" }, consumes && `${t("writes orders")} · `, asks && `${wants(asks["ab".indexOf(letter)])} · `, phases(c.stopped ? "stopped" : idle ? "idle" : c.phase))),
      el("p", { class: "next" }, c.command ? command(c.command) : c.answer ? answer(c.answer, this.again() === c.name) : el("span", { class: "soft" }, without(idle ? "idle" : c.phase))),
      button(main), el("div", { class: "verbs" }, seen.map(button)));
  }

  // known are the verbs that the lessons have needed so far: a lesson introduces its buttons. A reader may ask for all.
  known() {
    const { lessons, lesson } = this.view;
    if (this.every || lesson.way === "") return new Set([...verbs, "x"]);
    return new Set(lessons.slice(0, lessons.indexOf(lesson) + 1).flatMap((l) => [...l.way]));
  }

  // again is the client that was sold the last item after the other one.
  again() {
    const { lesson, state } = this.view;
    if (lesson.stock !== 1 || state.won < 0 || !state.clients.every((c) => c.answer?.startsWith("ok"))) return "";
    return state.steps.filter((s) => s.answer?.startsWith("ok")).at(-1)?.client ?? "";
  }

  drawTools() {
    const tool = (does, words, act, off, key) => el("button", { type: "button", class: "quiet", "data-does": does, disabled: off, click: act }, words, key && el("kbd", { "aria-hidden": "true" }, key));
    const none = this.view.state.steps.length === 0;
    const copy = tool("link", t("Copy link"), async () => {
      await navigator.clipboard.writeText(location.href);
      copy.textContent = t("Copied");
    }, none);
    const { lesson, state } = this.view, known = this.known();
    const open = state.won < 0, every = () => { this.every = true; this.draw(); }, hint = () => { this.hinted = lesson; this.draw(); };
    const held = (state.steps.at(-1)?.stores ?? state.start).sql.find((x) => x.name === "reservation")?.rows[0]?.[1] === "held";
    replace(this.tools, known.has("x") && tool("x", both(lesson.event) || (lesson.asks ? t("Let the deadline pass") : t("Expire locks")), () => this.view.go("x"), Boolean(lesson.asks) && !held, "X"), tool("undo", t("Undo"), () => this.view.back(), none, "U"),
      tool("restart", t("From the start"), () => this.view.restart(), none), copy,
      !this.every && known.size < verbs.length + 1 && tool("every", t("All buttons"), every),
      open && lesson.way !== "" && this.hinted !== lesson && tool("hint", t("Hint"), hint),
      open && el("span", { class: "give-up" }, !this.tried() && el("span", { class: "soft small" }, t("Try first: play one client to its end."), " "),
        el("button", { type: "button", class: "quiet", "data-does": "claim", disabled: !this.tried(), click: () => this.view.claim() }, t("It cannot be done"))));
  }

  // tried says whether a client has reached its end in this lesson: a reader may claim that an aim cannot be reached only after a try.
  tried() {
    if (this.view.state.clients.some((c) => c.answer || c.phase === "dead")) this.ended = this.view.lesson;
    return this.ended === this.view.lesson;
  }

  // drawCode shows the steps of the mode, from its page, with the clients at the lines that are next.
  async drawCode() {
    const { lesson } = this.view, wanted = `${lesson.mode}/${lang()}`;
    if (this.lines?.of !== wanted) {
      this.lines = { of: wanted, items: [] };
      const page = await get(`pages/modes/${lesson.mode}?lang=${lang()}`).catch(() => null);
      if (!page || this.lines?.of !== wanted) return; // the reader has gone on
      const list = new DOMParser().parseFromString(page.html, "text/html").querySelector("ol");
      this.lines.items = [...list?.children ?? []].map((li) => el("li", {}, [...document.importNode(li, true).childNodes]));
      replace(this.code, el("summary", {}, t("The mode, step by step")), el("ol", {}, this.lines.items));
    }
    const { state } = this.view; // it may have come meanwhile
    this.code.hidden = this.lines.items.length === 0;
    this.code.querySelectorAll(".lane-name").forEach((b) => b.remove());
    for (const li of this.lines.items) li.classList.remove("is-next");
    const next = (state?.clients ?? []).map((c, i) => ({ name: c.name, li: c.command && lineOf(linesFor(this.lines.items, lesson.asks?.[i]), [...state.steps.filter((s) => s.client === c.name && s.command).map((s) => s.command), c.command]) }));
    for (const { name, li } of next.reverse()) { // after all were found: a letter in a line hides its first word
      li?.classList.add("is-next");
      li?.prepend(el("span", { class: `lane-name is-${name.toLowerCase()}` }, name));
    }
  }

  drawSteps() {
    const { state } = this.view;
    replace(this.steps, el("h2", {}, t("Your schedule")), state.steps.length === 0 && el("p", { class: "soft" }, t("No moves yet. Both clients have sent their requests, and each is held before its first command.")),
      el("ol", { class: "moves" }, state.steps.map((s, i) => el("li", { class: `move ${s.client ? `by-${s.client.toLowerCase()}` : "by-time"} ${s.deleted || s.move.endsWith("k") || s.move.endsWith("l") ? "is-grave" : ""}` },
        el("button", { type: "button", "data-does": `step${i}`, "aria-pressed": String(i === this.shown), click: () => this.show(i) },
          el("span", { class: "move-number" }, String(i + 1)), s.client ? el("span", { class: `lane-name is-${s.client.toLowerCase()}` }, s.client) : el("span", { class: "lane-name is-time", "aria-hidden": "true" }, "T"),
          el("span", { class: "move-text" }, this.words(s)), state.won === i + 1 && el("span", { class: "move-won" }, t("aim reached")))))));
  }

  show(i) {
    this.shown = i;
    this.steps.querySelectorAll(".move button").forEach((b, n) => b.setAttribute("aria-pressed", String(n === i)));
    this.drawStores();
  }

  drawStores() {
    const { state } = this.view;
    const before = this.shown > 0 ? state.steps[this.shown - 1].stores : state.start;
    const after = this.shown >= 0 ? state.steps[this.shown].stores : state.start;
    replace(this.stores, el("h2", {}, this.shown < 0 ? t("Before the first move") : t("Before and after move {n}", { n: this.shown + 1 })), stores(before, after, this.shown >= 0));
  }

  // words is a move for people: what was done, and what came of it.
  words(s) {
    const verb = s.move === "x" ? "x" : s.move.slice(1);
    const runs = verb === "" || verb === "h" || verb === "l";
    if (verb === "x" && this.view.lesson.asks) return [t("The deadline passes: whoever sweeps finds the reservation overdue, and ends it")];
    const { event } = this.view.lesson;
    const out = [verb === "x" && event.en ? el("span", {}, both(event), s.command && [colon(), command(s.command)]) : runs ? el("span", {}, command(s.command), s.said && el("span", { class: "said-back" }, el("span", { "aria-hidden": "true" }, " → "), el("code", {}, s.said))) : did(verb)];
    if (verb === "h" || verb === "l") out.push(el("span", { class: "move-note" }, did(verb)));
    if (s.phase === "waiting") out.push(el("span", { class: "move-note" }, t("waits in the server")));
    if (s.deleted) out.push(el("span", { class: "move-note is-bad" }, t("that was the other's lock!")));
    if (s.renewed) out.push(el("span", { class: "move-note" }, t("its holder is alive, and has renewed it in time")));
    if (s.answer && ["", "l", "r", "c"].includes(verb)) out.push(el("span", { class: "move-note" }, t("the client is told:"), " ", answer(s.answer)));
    return out;
  }

  says(s) {
    return `${s.client ?? ""} ${this.words(s).map((w) => w.textContent ?? w).join(". ")}`;
  }

  // ending is the text for a reader who has reached the aim or given up.
  ending() {
    const { lesson, state, claimed } = this.view;
    const won = state && state.won >= 0, impossible = lesson.way === "";
    const given = claimed === lesson.name;
    const next = this.view.next();
    const on = next && el("p", {}, el("a", { class: "go small-go", href: address(next.name, "") }, t("Next: {title}", { title: both(next.title) })));
    if (won || given && impossible) {
      return el("section", { class: `verdict is-won ${impossible ? "is-unsure" : "is-good"}` }, el("p", { class: "verdict-line" }, impossible ? t("Right: it cannot be done.") : t("Done, in {n} [move|moves].", { n: state.won })), el("p", {}, both(lesson.moral)), on);
    }
    if (given) return el("section", { class: "verdict is-unsure" }, el("p", { class: "verdict-line" }, t("It can be done.")), el("p", {}, both(lesson.hint)), el("p", {}, el("a", { href: address(lesson.name, lesson.way) }, t("Show me a way"))));
    if (this.hinted === lesson) return el("section", { class: "verdict" }, el("p", {}, el("strong", {}, t("Hint")), colon(), both(lesson.hint)), el("p", {}, el("a", { href: address(lesson.name, lesson.way) }, t("Show me a way"))));
    return null;
  }
}

// Which line of a mode's steps a command belongs to; of several lines it is the first after that of the command before, unless last is set.
const rules = [
  { of: /^EVAL\w* .Takes units/, line: /\bXADD\b/ },
  { of: /^EVAL\w* .Hands a consumer/, line: /SHOP_TICKET_CLAIM/ },
  { of: /^EVAL\w* .Ends tickets/, line: /acknowledge|\bACK\b/ },
  { of: /^EVALSHA .(Leaves|Releases|Deletes)|^DEL \S*lock/, line: /\bDEL\b|release|delete|\u91ca\u653e|\u5220/i, last: true },
  { of: /^(EVALSHA|SETNX|SET) .*lock:/, line: /lock|script|\u9501|\u811a\u672c/i, first: true },
  { of: /^GET \S*lock:/, line: /\bGET\b(?!.*(stock|\u5e93\u5b58))/ },
  { of: /^START TRANSACTION|^INSERT INTO payment/, line: /\bBEGIN\b/ },
  { of: /^UPDATE idempotent_log/, line: /\bCOMMIT\b/ },
];

// linesFor are the lines of what a client asks for: of a mode that holds units the first line is the hold, the others end one.
const linesFor = (items, asks) => (asks ? items.slice(...(asks === "reserve" ? [0, 1] : [1])) : items);

// lineOf is the line of the last of a client's commands. A command that no line names, and the COMMIT of a plain read, belong to the line before.
function lineOf(items, commands) {
  let at = 0, found = items[0], read = false;
  for (const text of commands) {
    const own = text.replace(/^[\w ]+?: /, ""), rule = rules.find((r) => r.of.test(own)) ?? { line: new RegExp(`\\b${/^\w+/.exec(own)?.[0]}\\b`) };
    const fits = (pattern) => items.filter((li) => pattern.test(li.textContent));
    const lines = fits(rule.line).length > 0 ? fits(rule.line) : fits(/\bread\b|\u8bfb/); // a mode may only say: read, check, write
    if (!(read && own === "COMMIT")) found = (rule.last ? lines.at(-1) : lines.find((li) => rule.first || items.indexOf(li) >= at) ?? lines[0]) ?? found;
    at = items.indexOf(found);
    read = own.startsWith("SELECT");
  }
  return found;
}

// answer words what a client was told.
function answer(text, same = false) {
  const [outcome, code] = text.split(" ");
  return el("span", { class: `answer is-${same ? "unknown" : wants.names.includes(outcome) ? "ok" : outcome}` }, same ? t("sold: the same item") : answers(outcome), code && [" ", el("code", {}, code)]);
}
