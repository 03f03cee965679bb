// Words for what the lab found: outcomes, hazards, commands, waits.
import { el } from "./dom.js";
import { bracketed, duration, t, words } from "./i18n.js";

// hazardName is the short name of a hazard, in the reader's language for those with claims: the ladder.
export const hazardName = words({
  threads: "threads", replicas: "replicas", slow: "slow", late: "late", pause: "pause", crash: "crash",
  failover: "failover", stale: "stale read", retry: "retry", redelivery: "redelivery", "late-write": "late write",
  expiry: "expiry",
});

export const ladder = hazardName.names;

// outcomeName is what a letter of an outcome stands for, outcomeNames what several do.
export const outcomeName = words({
  O: "oversells", L: "loses stock", D: "charges twice", X: "gets stuck", A: "loses an order",
  B: "sells a buyer too much", U: "refuses too early",
});
export const outcomeNames = (letters) => [...letters].map((l) => outcomeName(l)).join(t(", "));

// isBroken says whether a claim or what was found has a letter.
export const isBroken = (found) => /[OLDXABU!]/.test(found ?? "");
// breaks says whether a hazard breaks a mode by more than a second charge for a repeated request.
export const breaks = (hazard, found) => isBroken(found) && (hazard !== "retry" || found !== "D");

// cellAddress is the fragment of a cell of the matrix: of its first letter, if it has one.
export const cellAddress = (mode, store, hazard, found) => `#/matrix/${mode}/${store}/${hazard}${isBroken(found) ? `/${found[0]}` : ""}`;

// cutWords says where a schedule holds a request.
export const cutWords = words({
  command: "before the server receives", answer: "after the server has executed",
  severed: "and its connection breaks, with this command on its way:",
});

const phases = words({
  reset: "setting the stock", warmup: "warming up", run: "selling", settle: "waiting for late answers",
  judge: "judging",
});

// stage says what a run is about.
export const stage = (run) => (run.step.phase ? `${phases(run.step.phase)} …` : t("Starting …"));

// outcomeWords says what was found, in words.
export function outcomeWords(cell, found) {
  if (found === "") return t("not played: broken by an earlier hazard, or out of its reach");
  if (found === "–") return t("cannot happen to this mode");
  const text = found === "." ? t("exact") : outcomeNames(found);
  return cell ? text : text + bracketed(t("claimed, and covered by Go tests; the lab cannot play it"));
}

// command is a command as a story has it, without the name space of the lab, and with a word where a schedule leaves the product open.
export function command(text) {
  const [, server, rest] = /^([\w ]+?): ([^]*)$/.exec(text) ?? [null, "", text];
  return el("code", { class: "command" }, server && el("span", { class: "server" }, server), rest.replace(/\blane(?:\d+|#):/g, "").replace("{###}", `{${t("product")}#${t("segment")}}`).replace(/\{#\}/g, `{${t("product")}}`).replace(/\/#(?=\/|\s|$)/g, `/${t("product")}`));
}

// waited writes milliseconds for people.
export const waited = (ms) => duration(ms * 1e6);
