import { el, replace } from "./dom.js";
import { both, colon, lang, t } from "./i18n.js";
import { post, remove } from "./stream.js";
import { standing } from "./verdict.js";

// picker lists the modes with a filter: one can be chosen, or several.
export function picker(modes, { several, chosen, change, more }) {
  const list = el("div", { class: "modes", role: several ? "group" : "radiogroup", "aria-label": several ? t("Modes") : t("Mode") });
  const none = el("p", { class: "soft", hidden: true }, t("No mode fits."));
  const rows = modes.map((m) => {
    const input = el("input", { type: several ? "checkbox" : "radio", name: "mode", value: m.name, checked: chosen.includes(m.name), disabled: !m.available,
      change: () => change(m.name, input.checked) });
    const row = el("label", { class: `mode ${m.available ? "" : "off"}`, title: m.available ? both(m.title) : t("not available here") + colon() + (m.why ?? "") },
      input, el("span", { class: several ? "check" : `dot ${standing(m)}`, "aria-hidden": "true" }), el("span", { class: "mode-name" }, m.name),
      several && el("span", { class: `dot ${standing(m)}`, "aria-hidden": "true" }));
    row.words = `${m.name} ${m.title.en} ${m.title.zh}`.toLowerCase();
    return row;
  });
  replace(list, rows, none);
  // It belongs to no form: Enter would start a run.
  const filter = el("input", { type: "search", form: "", placeholder: t("Filter the modes"), "aria-label": t("Filter the modes"), input: () => {
    const wanted = filter.value.trim().toLowerCase();
    for (const row of rows) row.hidden = !row.words.includes(wanted);
    none.hidden = rows.some((r) => !r.hidden);
    reveal(list);
  } });
  queueMicrotask(() => reveal(list));
  const dot = (kind, text) => el("span", { class: "dot-key" }, el("span", { class: `dot ${kind}`, "aria-hidden": "true" }), text);
  return el("fieldset", { class: "picker" }, el("legend", {}, several ? t("Modes") : t("Mode")), filter, more, list,
    el("p", { class: "dots soft" }, dot("bad", t("broken by load")), dot("part", t("by a fault")), dot("good", t("by a retry at most"))));
}

// reveal scrolls a list to the first mode that is chosen in it.
export function reveal(list) {
  const row = list.querySelector("input:checked")?.closest("label");
  if (row && !row.hidden) list.scrollTop = row.offsetTop - 60;
}

// numbers are the fields of a form for replicas, clients and stock.
export function numbers(form, replicas, keep) {
  const field = (name, text, min, max) => {
    const input = el("input", { type: "number", id: `f-${name}`, min: String(min), max: String(max), required: true, inputmode: "numeric",
      input: () => { form[name] = Number(input.value); keep(); } });
    input.value = String(form[name]);
    return el("div", { class: "field" }, el("label", { for: `f-${name}` }, text), input);
  };
  return el("div", { class: "numbers" }, field("replicas", t("Replicas"), 1, replicas), field("clients", t("Clients"), 1, 500), field("stock", t("Stock"), 1, 100000));
}

// startOrStop starts the runs of a spec for a view, or stops those that go on.
export async function startOrStop(e, view, spec) {
  e.preventDefault();
  view.message.textContent = "";
  view.sending = true;
  view.update();
  try {
    const { running, run } = view.app.model;
    if (running && !ours(run) && view.sure !== run.id) {
      view.sure = run.id;
      view.message.textContent = t("{mode} was started in another window. Press again to stop it.", { mode: run.spec.modes.join(t(", ")) });
    } else if (running) await remove("runs");
    else {
      await post("runs", { ...spec, lang: lang(), window: ownWindow() });
      if (view.stage.offsetTop > view.button.offsetTop) view.stage.scrollIntoView({ block: "start" }); // one column
    }
  } catch (err) {
    view.message.textContent = err.message;
  }
  view.sending = false;
  view.update();
}

// copier is a button that copies a text.
export function copier(text) {
  const button = el("button", { type: "button", class: "quiet copier", click: async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = t("Copied");
    setTimeout(() => (button.textContent = t("Copy")), 1500);
  } }, t("Copy"));
  return button;
}

// kept is a form as it was left, in this tab.
export function kept(name) {
  try {
    return JSON.parse(sessionStorage.getItem(`lastitem.${name}`)) ?? {};
  } catch {
    return {};
  }
}

export const keep = (name, form) => sessionStorage.setItem(`lastitem.${name}`, JSON.stringify(form));

// ownWindow is the id of this window, by which it knows its own runs after a reload.
function ownWindow() {
  if (!sessionStorage.getItem("lastitem.window")) sessionStorage.setItem("lastitem.window", Math.random().toString(36).slice(2));
  return sessionStorage.getItem("lastitem.window");
}

// drawButton shows what the button of a view does now. After the end of a run it rests for a moment: a press that was meant to stop that
// run starts no other.
export function drawButton(view, start, can) {
  const { button, sending } = view, { model, link } = view.app;
  button.textContent = !model.running ? start : ours(model.run) ? t("Stop") : t("Stop (started in another window)");
  button.classList.toggle("stop", model.running);
  button.disabled = sending || !model.known || link === "lost" || !model.running && (!can || performance.now() - model.ended < restsFor);
}

export const restsFor = 600; // milliseconds

export const ours = (run) => run.spec.window === ownWindow();
