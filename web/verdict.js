import { el } from "./dom.js";
import { duration, lang, number, t } from "./i18n.js";

// tone is the colour of a result: good, bad or none.
export function tone(result) {
  const v = worst(result);
  if (!v) return "none";
  return { EXACT: "good", BROKEN: "bad" }[v.verdict] ?? "unsure";
}

const rank = ["EXACT", "VACUOUS", "INCONCLUSIVE", "BROKEN"];

// worst is the judge's report that decides; a baseline has none.
export function worst(result) {
  return [...(result?.verdicts ?? [])].sort((a, b) => rank.indexOf(b.verdict) - rank.indexOf(a.verdict))[0] ?? null;
}

// sentences words the judge's report: the first is the verdict, the others say what else went wrong.
export function sentences(result) {
  const v = worst(result);
  if (!v) return [t("verdictBaseline", { n: number(result.sent) })];
  const values = {
    sold: number(v.sold), initial: number(v.initial), final: number(v.final), oversold: number(v.oversold), lost: number(v.lost_updates),
    leaked: number(v.leaked), doubles: number(v.doubles), ack: number(v.ack_lost), refused: number(result.codes?.sold_out ?? 0),
  };
  if (v.verdict === "EXACT") return [t(v.final > 0 ? "verdictExactLeft" : "verdictExact", values)];
  if (v.verdict !== "BROKEN") return [t("verdictNothing"), ...(v.missing ?? [])];
  const said = [];
  if (v.oversold > 0) said.push(t("verdictOver", values));
  if (v.lost_updates > 0) said.push(t("verdictLost", values));
  if (v.leaked > 0) said.push(t("verdictLeak", values));
  if (v.doubles > 0) said.push(t("verdictDouble", values));
  if (v.ack_lost > 0) said.push(t("verdictAck", values));
  if (v.found.includes("X")) said.push(t("verdictStuck", values));
  if (said.length === 0) said.push(t("verdictBroken"), ...(v.violations ?? []));
  return said;
}

// details are what stands below the sentence: the claim, the speed, the evidence.
export function details(result) {
  const v = worst(result);
  const accepted = result.latency?.accepted;
  const lines = [...sentences(result).slice(1), t(result.finding || "unclaimed")];
  if (result.tries > 1) lines.push(t("tries", { n: result.tries }));
  if (accepted?.count > 0) {
    lines.push(t("speed", { rate: number(result.accepted_per_second), p50: duration(accepted.p50_ns), p99: duration(accepted.p99_ns) }));
  }
  const noisy = result.discounted ? [result.discounted] : (result.noisy ?? []);
  return [
    el("p", { class: "verdict-more" }, lines.filter(Boolean).join(lang() === "zh" ? "" : " ")),
    noisy.length > 0 && el("p", { class: "note" }, t("noisy", { why: noisy[0] })),
    v?.evidence?.length > 0 && evidence(v.evidence),
  ];
}

const shownEvidence = 3, shownOrders = 4;

function evidence(all) {
  return el("details", { class: "evidence", open: true }, el("summary", {}, t("evidence")),
    el("ul", {}, all.slice(0, shownEvidence).map((e) => el("li", {},
      el("strong", {}, t(e.unit > e.of ? "unitBeyond" : "unitTimes", { unit: number(e.unit), of: number(e.of), times: number(e.times) })), " ",
      el("ol", {}, (e.orders ?? []).slice(0, shownOrders).map((o) => el("li", {},
        el("code", { title: o.order_id }, shortened(o.order_id)), " ", t("replica", { n: o.replica }), " ", el("time", {}, clock(o.created_at)))),
      e.times > shownOrders && el("li", { class: "soft" }, t("andMore", { n: number(e.times - shownOrders) })))))));
}

// shortened leaves out the middle of an order's id, as the command line does: what tells two orders of a moment apart is the end.
function shortened(id) {
  return id.length > 12 ? `${id.slice(0, 4)}…${id.slice(-6)}` : id;
}

// clock writes the time of day to the millisecond.
function clock(text) {
  const d = new Date(text);
  return Number.isNaN(d.getTime()) ? text : `${d.toTimeString().slice(0, 8)}.${String(d.getMilliseconds()).padStart(3, "0")}`;
}
