// Words for what the lab found: outcomes, hazards, commands, waits.
import { ladder } from "./controls.js";
import { el } from "./dom.js";
import { bracketed, duration, lang, t } from "./i18n.js";

// outcomeWords says what was found, in words.
export function outcomeWords(cell, found) {
  if (found === "") return t("matrixBlank");
  if (found === "–") return t("matrixNa");
  const text = found === "." ? t("exact") : [...found].map((l) => (l === "!" ? l : t(l))).join(lang() === "zh" ? "、" : ", ");
  return cell ? text : text + bracketed(t("matrixUnplayed"));
}

// hazardName is the short name of a hazard: in the reader's language for those with claims.
export const hazardName = (name) => (ladder.includes(name) ? t(`h_${name}`) : name);

// command is a command as a story has it, without the name space of the lab.
export function command(text) {
  const [, server, rest] = /^([\w ]+?): ([^]*)$/.exec(text) ?? [null, "", text];
  return el("code", { class: "command" }, server && el("span", { class: "server" }, server), rest.replace(/\blane(?:\d+|#):/g, ""));
}

// waited writes milliseconds for people.
export const waited = (ms) => duration(ms * 1e6).replace(" ", lang() === "zh" ? " " : " ");
