// The page of the console: a header, and one view at a time, named by the fragment of the address.
import { CompareView } from "./compare.js";
import { decoded, el, replace } from "./dom.js";
import { lang, pickLanguage, setLanguage, t } from "./i18n.js";
import { MatrixView } from "./matrix.js";
import { Model } from "./model.js";
import { ReadView } from "./read.js";
import { RunView } from "./run.js";
import { StepView } from "./step.js";
import { get, listen, login, Unauthorized } from "./stream.js";

const main = document.getElementById("main");

const app = { state: null, model: new Model(), link: "connecting", view: null };

const views = { run: new RunView(app), compare: new CompareView(app), matrix: new MatrixView(app), step: new StepView(app), read: new ReadView(app) };

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

async function begin() {
  header();
  try {
    await enter();
  } catch (err) {
    if (!(err instanceof Unauthorized)) throw err;
    askForToken();
    return;
  }
  listen((kind, data) => { app.model.on(kind, data); redraw(); }, (link) => { app.link = link; status(); });
  addEventListener("hashchange", route);
  route();
}

function askForToken(wrong = false) {
  const input = el("input", { type: "password", id: "token", autocomplete: "off", required: true });
  const form = el("form", { class: "session", submit: async (e) => {
    e.preventDefault();
    try {
      await login(input.value.trim());
      location.reload();
    } catch {
      askForToken(true);
    }
  } }, el("h1", {}, t("sessionTitle")), el("p", {}, t("sessionText")),
  el("div", { class: "field" }, el("label", { for: "token" }, t("token")), input), el("button", { type: "submit", class: "go" }, t("open")),
  wrong && el("p", { class: "message", role: "alert" }, t("wrongToken")));
  replace(main, form);
}

// route shows the view that the address names: #/run/unsafe.
function route() {
  const [, name, ...rest] = location.hash.slice(1).split("/");
  const left = app.view;
  app.view = views[name] ?? views.run;
  if (left && left !== app.view) scrollTo(0, 0); // a link at the end of a page leads to the beginning of another
  const { view } = app;
  const shown = view.show(main, decoded(rest.join("/")));
  header();
  Promise.resolve(shown).catch((err) => {
    if (app.view === view) failed(err);
  });
}

// failed says why a view could not be shown: most likely the console was started again and no longer knows the session.
function failed(err) {
  if (err instanceof Unauthorized) askForToken();
  else replace(main, el("section", { class: "empty" }, el("p", { class: "message", role: "alert" }, err.message)));
}

const frameEvery = 100; // milliseconds: ten frames a second at most
let due = false, drawn = 0;

function redraw() {
  if (due || document.hidden) return;
  due = true;
  setTimeout(() => requestAnimationFrame((now) => {
    due = false;
    drawn = now;
    app.view?.update();
  }), Math.max(0, frameEvery - (performance.now() - drawn)));
}

document.addEventListener("visibilitychange", redraw);

function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function header() {
  document.querySelector(".skip").textContent = t("skip");
  const current = Object.keys(views).find((v) => views[v] === app.view) ?? "run";
  replace(document.getElementById("nav"), Object.keys(views).map((v) =>
    el("a", { href: `#/${v}`, "aria-current": v === current ? "page" : null }, t(v))));
  document.getElementById("lang").textContent = t("language");
  document.getElementById("theme").textContent = t(dark() ? "light" : "dark");
  status();
}

function status() {
  const link = document.getElementById("link");
  link.className = `link is-${app.link}`;
  link.textContent = app.state ? t(app.link) : "";
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
