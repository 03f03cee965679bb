import { copier } from "./controls.js";
import { el, replace } from "./dom.js";
import { colon, lang, number, otherLanguage, t, words } from "./i18n.js";
import { cellAddress, isBroken } from "./say.js";
import { get } from "./stream.js";

const groupName = words({ "": "Guides", modes: "Modes", decisions: "Decisions" });

const mostHits = 30;

// cards are the pages that a newcomer looks for, with the question that each answers.
const cards = words({
  choose: "Yes-or-no questions lead to a mode. Something went wrong? The symptoms are on the same page.",
  locks: "All kinds of locks beside each other: what each protects from, and what ends it.",
  modes: "Every mode with its claims, from no lock at all to a batch in one transaction.",
  articles: "You have read about distributed locks: look up each case and run it.",
  teach: "A class of ninety minutes by the minute, with what to predict before each run.",
});

// ReadView shows the documentation: #/read/modes/lua-lock~what-breaks-it is a heading of a page.
export class ReadView {
  constructor(app) {
    this.app = app;
    this.query = "";
  }

  async show(main, asked) {
    const wanted = location.hash;
    if (this.lang !== lang()) {
      this.list = await get(`pages?lang=${lang()}`);
      this.lang = lang();
    }
    if (location.hash !== wanted) return; // the reader has gone on
    if (!this.side?.isConnected || this.sideLang !== this.lang) this.build(main);
    const [name, anchor] = asked.split("~");
    await this.open(name, anchor);
  }

  build(main) {
    this.sideLang = this.lang;
    this.name = null;
    const search = el("input", { type: "search", id: "r-search", value: this.query, autocomplete: "off", placeholder: t("Search all pages"), "aria-label": t("Search all pages"), input: () => this.find(search.value) });
    const order = this.app.state.modes.map((m) => `modes/${m.name}`); // as on Run, not by the alphabet
    const groups = [...new Set(this.list.map((p) => p.group))];
    this.links = new Map();
    const link = (p) => {
      const a = el("a", { href: `#/read/${p.name}` }, p.group === "modes" ? el("code", {}, p.name.slice("modes/".length)) : p.title);
      this.links.set(p.name, a);
      return el("li", {}, a);
    };
    this.nav = el("nav", { class: "pages", "aria-label": t("Pages") }, groups.map((g) => [el("h2", { class: "eyebrow" }, groupName(g)), el("ul", {}, this.list.filter((p) => p.group === g).sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name)).map(link))]));
    this.side = el("div", { class: "controls reading" }, search, this.nav);
    this.stage = el("div", { class: "stage" });
    replace(main, el("div", { class: "run read" }, this.side, this.stage));
  }

  async open(name, anchor) {
    const wanted = location.hash;
    if (this.name !== name) {
      let page = null;
      try {
        if (name) page = await get(`pages/${name}?lang=${lang()}`);
      } catch (err) {
        if (!(err.status < 500)) throw err; // such a page there may be
      }
      if (location.hash !== wanted) return;
      this.name = name;
      this.draw(page);
      for (const [n, a] of this.links) a.toggleAttribute("aria-current", n === name);
      const current = this.links.get(name);
      if (current) this.nav.scrollTop = current.offsetTop - this.nav.offsetTop - 80;
    } else if (this.query) this.draw(this.page);
    const target = anchor && document.getElementById(anchor);
    if (target) target.scrollIntoView();
    else scrollTo(0, 0);
  }

  // draw shows a page beside the button of its mode.
  draw(page) {
    this.page = page;
    this.query = "";
    this.side.querySelector("input").value = "";
    if (!page && !this.name) {
      replace(this.stage, el("article", {}, el("h1", { class: "hidden" }, t("Read")), el("ul", { class: "cards" }, cards.names.map((n) => this.list.find((p) => p.name === n)).filter(Boolean).map((p) =>
        el("li", {}, el("a", { href: `#/read/${p.name}` }, el("strong", {}, p.title), el("span", {}, cards(p.name))))))));
      return;
    }
    if (!page) {
      replace(this.stage, el("p", { class: "soft" }, t("There is no such page.")));
      return;
    }
    const mode = page.name.startsWith("modes/") && this.app.state.modes.find((m) => `modes/${m.name}` === page.name);
    const article = el("article", { class: "prose", lang: page.lang === "zh" ? "zh-CN" : "en" }, nodesOf(page.html));
    mend(article);
    replace(this.stage,
      mode && el("p", { class: "page-tools" }, el("a", { class: "go small-go", href: `#/run/${mode.name}` }, t("Run {mode}", { mode: mode.name })),
        !mode.baseline && el("a", { href: firstBroken(mode) }, t("What breaks it#matrix"))),
      page.lang !== lang() && el("p", { class: "note" }, t("This page is in English only.")), contents(page, article), article);
  }

  // find searches all pages, a moment after the last key.
  find(text) {
    this.query = text.trim();
    clearTimeout(this.waiting);
    if (!this.query) {
      this.draw(this.page);
      return;
    }
    this.waiting = setTimeout(async () => {
      const asked = this.query;
      const hits = await get(`search?${new URLSearchParams({ q: asked, lang: lang() })}`);
      if (asked === this.query) this.drawHits(asked, hits);
    }, 150);
  }

  drawHits(q, hits) {
    const values = { n: number(hits.length), q };
    const says = hits.length === 0 ? t("Nothing for “{q}”.", values) : hits.length >= mostHits ? t("The first {n} places for “{q}”", values) : t("{n} [place|places] for “{q}”", values);
    replace(this.stage, el("p", { class: "soft", role: "status" }, says),
      el("ol", { class: "hits" }, hits.map((h) => el("li", {},
        el("a", { href: `#/read/${h.page}${h.anchor ? `~${h.anchor}` : ""}`, click: (e) => this.follow(e, h) }, h.title, h.heading !== h.title && el("span", { class: "soft" }, ` › ${h.heading}`)),
        el("p", {}, marked(h.before + h.match + h.after, q))))));
  }

  // follow opens a hit also where the address stays the same.
  follow(e, h) {
    if (new URL(e.currentTarget.href).hash !== location.hash) return;
    e.preventDefault();
    this.draw(this.page);
    document.getElementById(h.anchor)?.scrollIntoView();
  }
}

// nodesOf makes nodes of a page's HTML. It comes from the Markdown in the binary, whose raw HTML the server leaves out.
function nodesOf(html) {
  return [...new DOMParser().parseFromString(html, "text/html").body.childNodes].map((n) => document.adoptNode(n));
}

// marked is a text in which the words that were asked for stand out.
function marked(text, q) {
  const words = q.split(/\s+/).map((w) => w.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  return text.split(new RegExp(`(${words.join("|")})`, "iu")).map((part, i) => (i % 2 ? el("mark", {}, part) : part));
}

// mend puts what Markdown cannot say into a page: tables that scroll by themselves, and names of pictures.
function mend(article) {
  for (const table of article.querySelectorAll("table")) {
    const box = el("div", { class: "wide-scroll", tabindex: "0", role: "region", "aria-label": [...table.querySelectorAll("th")].slice(0, 3).map((th) => th.textContent).join(", ") });
    box.classList.toggle("is-many", table.rows[0].cells.length > 4);
    table.replaceWith(box);
    box.append(table);
  }
  for (const td of article.querySelectorAll("td")) {
    const text = td.textContent, name = text === td.querySelector("code")?.textContent;
    td.classList.toggle("is-long", text.length > 24);
    td.classList.toggle("is-name", name && text.length <= 24);
    td.classList.toggle("is-some", !name && text.length <= 24 && columns(text) > 12);
  }
  for (const pre of article.querySelectorAll("pre")) {
    if (pre.closest(".diagram") || pre.querySelector(".language-text")) continue; // a picture's source, the output of a command
    const box = el("div", { class: "shell" });
    pre.replaceWith(box);
    box.append(pre, copier(pre.textContent.replace(/\n$/, "")));
  }
  // The link to the page in the other language is the switch of the language.
  for (const a of article.querySelectorAll("a")) {
    if (a.textContent === otherLanguage()) a.addEventListener("click", (e) => { e.preventDefault(); document.getElementById("lang").click(); });
  }
  for (const th of article.querySelectorAll("th")) if (!th.textContent.trim()) th.replaceWith(el("td"));
  for (const figure of article.querySelectorAll(".diagram")) {
    const heading = before(figure);
    figure.querySelector("img")?.setAttribute("alt", t("Diagram") + colon() + heading);
    figure.querySelector("details")?.prepend(el("summary", {}, t("Source of the diagram")));
    if (figure.classList.contains("is-source")) figure.prepend(el("p", { class: "note" }, t("This diagram has not been drawn; here is its source.")));
  }
}

// columns is the width of a text: a Chinese character takes two columns.
const columns = (text) => [...text].reduce((n, c) => n + (c > "\u2e80" ? 2 : 1), 0);

// before is the heading that something stands under.
function before(node) {
  for (let n = node.previousElementSibling; n; n = n.previousElementSibling) if (/^H\d$/.test(n.tagName)) return n.textContent;
  return "";
}

// firstBroken leads to the row of a mode in the matrix: to the first cell that breaks it, or to all.
function firstBroken(mode) {
  for (const [store, row] of Object.entries(mode.claims ?? {})) {
    for (const [hazard, outcome] of Object.entries(row)) if (isBroken(outcome)) return cellAddress(mode.name, store, hazard, outcome);
  }
  return "#/matrix";
}

// contents lists the sections of a long page.
function contents(page, article) {
  const heads = [...article.querySelectorAll("h2[id]")];
  return heads.length > 5 && el("details", { class: "contents" }, el("summary", {}, t("On this page")),
    el("ul", {}, heads.map((h) => el("li", {}, el("a", { href: `#/read/${page.name}~${h.id}` }, h.textContent)))));
}
