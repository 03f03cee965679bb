// The page of the console: a header, and one view at a time, named by the fragment of the address.
import { CompareView } from "./compare.js";
import { restsFor } from "./controls.js";
import { decoded, el, replace } from "./dom.js";
import { lang, otherLanguage, pickLanguage, setLanguage, t, words } from "./i18n.js";
import { MatrixView } from "./matrix.js";
import { Model } from "./model.js";
import { ProductView } from "./product.js";
import { ReadView } from "./read.js";
import { RunView } from "./run.js";
import { StepView } from "./step.js";
import { get, listen, login, Unauthorized } from "./stream.js";

const main = document.getElementById("main");

const app = { state: null, model: new Model(), link: "connecting", view: null };

const views = { run: new RunView(app), compare: new CompareView(app), matrix: new MatrixView(app), step: new StepView(app), product: new ProductView(app), read: new ReadView(app) };

const viewName = words({ run: "Run", compare: "Compare", matrix: "Matrix", step: "Step", product: "Product", read: "Read" });
const linkState = words({ connecting: "connecting …", lost: "connection lost", live: "live" });

pickLanguage();

// The token of the address is exchanged for a cookie, and taken out of the address and the history.
async function enter() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", `${location.pathname}${location.search}#/run`);
    await login(token);
  }
  app.state = await get("state");
}

let retry = 0;

async function begin() {
  clearTimeout(retry);
  header();
  const given = location.hash.startsWith("#token=");
  try {
    await enter();
  } catch (err) {
    if (err instanceof Unauthorized) {
      app.guest = true;
      visit(given ? t("That is not the token of this stack.") : "");
    } else {
      failed(err);
      retry = setTimeout(begin, 2000);
    }
    return;
  }
  listen((kind, data) => { app.model.on(kind, data); redraw(); if (kind === "end") setTimeout(redraw, restsFor); }, (link) => { app.link = link; status(); redraw(); });
  route();
}

addEventListener("session-ended", () => { if (!document.getElementById("token")) askForToken(); }); // the console was started again
addEventListener("hashchange", () => { if (app.state) route(); else if (app.guest) visit(); });

// visit shows the page that can be read without the token, or asks for it.
function visit(wrong = "") {
  if (location.hash.startsWith("#/product")) route();
  else askForToken(wrong);
}

// failed says why there is no page to show.
function failed(err) {
  if (!(err instanceof Unauthorized)) replace(main, el("p", { class: "session message", role: "alert" }, t("This page cannot be shown now: {why}", { why: err.message })));
}

function askForToken(wrong = "") {
  document.getElementById("ended").hidden = true;
  const input = el("input", { type: "password", id: "token", autocomplete: "off", required: true });
  const form = el("form", { class: "session", submit: async (e) => {
    e.preventDefault();
    try {
      await login(input.value.trim());
      location.reload();
    } catch (err) {
      askForToken(err instanceof Unauthorized ? t("That is not the token of this stack.") : err.message);
    }
  } }, el("h1", {}, t("This page needs the stack's token")), el("p", {}, t("Open the address that was printed at the start, or paste the token: it is the stack's SHOP_ADMIN_TOKEN.")),
  el("div", { class: "field" }, el("label", { for: "token" }, t("Token")), input), el("button", { type: "submit", class: "go" }, t("Open")),
  wrong && el("p", { class: "message", role: "alert" }, wrong), el("p", {}, el("a", { href: "#/product/101" }, t("Look at a product without the token, read-only"))));
  replace(main, form);
}

// route shows the view that the address names: #/run/unsafe.
function route() {
  const [, name, ...rest] = location.hash.slice(1).split("/");
  const left = app.view;
  app.view = name ? views[name] : views.run;
  if (!name) history.replaceState(null, "", "#/run");
  if (left && left !== app.view) scrollTo(0, 0); // a link at the end of a page leads to the beginning of another
  const { view } = app;
  if (!view) {
    replace(main, el("p", { class: "session message", role: "alert" }, t("There is no such page.")));
    header();
    return;
  }
  const shown = view.show(main, decoded(rest.join("/")));
  header();
  Promise.resolve(shown).catch((err) => {
    if (app.view === view) failed(err);
  });
}

const frameEvery = 100; // milliseconds: ten frames a second at most
let due = false, drawn = 0;

function redraw() {
  if (due || document.hidden) return;
  due = true;
  setTimeout(() => requestAnimationFrame((now) => {
    due = false;
    drawn = now;
    app.view?.update?.();
  }), Math.max(0, frameEvery - (performance.now() - drawn)));
}

document.addEventListener("visibilitychange", redraw);

function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function header() {
  document.querySelector(".skip").textContent = t("Skip to the content");
  const current = Object.keys(views).find((v) => views[v] === app.view);
  document.title = current ? `${viewName(current)} · lastitem` : "lastitem";
  replace(document.getElementById("nav"), Object.keys(views).map((v) =>
    el("a", { href: `#/${v}`, "aria-current": v === current ? "page" : null }, viewName(v))));
  document.getElementById("lang").textContent = otherLanguage();
  document.getElementById("theme").textContent = dark() ? t("Light") : t("Dark");
  status();
}

let lost = 0;

// status says whether the console answers; if it has not for a while, also what to do.
function status() {
  const link = document.getElementById("link");
  link.className = `link is-${app.link}`;
  link.textContent = app.state ? linkState(app.link) : "";
  const ended = document.getElementById("ended");
  ended.textContent = t("The console has ended, or cannot be reached. If it has ended, start it again with shop play, and open the address that it prints. Until then this page shows what it has.");
  if (app.link !== "lost") {
    clearTimeout(lost);
    lost = 0;
    ended.hidden = true;
  } else {
    lost ||= setTimeout(() => { ended.hidden = document.getElementById("token") !== null; }, 3000); // it may come back
  }
}

document.getElementById("lang").addEventListener("click", () => {
  setLanguage(lang() === "zh" ? "en" : "zh");
  localStorage.setItem("lastitem.lang", lang());
  if (app.state) route();
  else begin();
});

document.getElementById("theme").addEventListener("click", () => {
  const wanted = dark() ? "light" : "dark";
  document.documentElement.dataset.theme = wanted;
  localStorage.setItem("lastitem.theme", wanted);
  recolour();
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);

function recolour() {
  header();
  app.view?.again?.();
}

begin();
