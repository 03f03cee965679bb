import { el } from "./dom.js";
import { duration, lang, number, space, t, words } from "./i18n.js";
import { breaks, isBroken, ladder } from "./say.js";

// tone is the colour of a result: good, bad or none.
export function tone(result) {
  const v = worst(result);
  if (!v) return "none";
  return { EXACT: "good", BROKEN: "bad" }[v.verdict] ?? "unsure";
}

const rank = ["EXACT", "VACUOUS", "INCONCLUSIVE", "BROKEN"];

// loadTone is the tone of a result as a run shows it: a run that was stopped or whose answers were lost is not a green one, nor is a mode that
// another hazard breaks.
export function loadTone(run, result, mode) {
  const was = tone(result);
  if (was !== "bad" && (run.state === "stopped" || result.partial)) return "none"; // what was sold twice was sold twice
  if (was !== "good") return was;
  return lostAnswers(result) > 0 || (mode && ["bad", "part"].includes(standing(mode))) ? "unsure" : "good";
}

// lostAnswers is the number of requests without an answer, or with one that leaves open whether they happened.
export const lostAnswers = (result) => result?.latency?.failed?.count ?? 0;

// headline is the first sentence of a result, with what limits it.
export function headline(run, result, mode) {
  const first = sentences(result)[0];
  if (tone(result) !== "bad" && (run.state === "stopped" || result.partial)) return t("Stopped before the end: no verdict on the mode.");
  if (tone(result) !== "good") return first;
  return loadTone(run, result, mode) === "good" ? first : t("Exact under this load. {sold} of {initial} [unit|units] sold, each once.", { sold: number(worst(result).sold), initial: number(worst(result).initial) });
}

// standing is how far up the ladder a mode holds: "bad" breaks under load, "part" under a fault, "good" under none but
// a retry that charges twice.
export function standing(m) {
  if (m.baseline) return "none";
  const claims = Object.values(m.claims ?? {});
  if (claims.some((c) => isBroken(c.threads) || isBroken(c.replicas))) return "bad";
  if (claims.some((c) => ladder.some((h) => breaks(h, c[h])))) return "part";
  return "good";
}

// worst is the judge's report that decides; a baseline has none.
export function worst(result) {
  return [...(result?.verdicts ?? [])].sort((a, b) => rank.indexOf(b.verdict) - rank.indexOf(a.verdict))[0] ?? null;
}

// sentences words the judge's report: the first is the verdict, the others say what else went wrong.
export function sentences(result, same = true) {
  const v = worst(result);
  if (!v) return [t("A baseline: {n} [answer|answers], and no stock to judge.", { n: number(result.sent) })];
  const values = {
    sold: number(v.sold), initial: number(v.initial), final: number(v.final), oversold: number(v.oversold), lost: number(v.lost_updates),
    leaked: number(v.leaked), doubles: number(v.doubles), ack: number(v.ack_lost), refused: number(result.codes?.sold_out ?? 0),
  };
  if (v.verdict === "EXACT") return [v.final > 0 ? t("Exact. {sold} of {initial} [unit|units] sold, each once; {final} left.", values) : t("Exact. {sold} of {initial} [unit|units] sold, each once; {refused} [request was|requests were] refused as sold out.", values)];
  if (v.verdict !== "BROKEN") return [t("Nothing can be said."), ...(same ? v.missing ?? [] : [])];
  const said = [];
  if (v.oversold > 0) said.push(t("Oversold. {sold} [unit|units] sold from a stock of {initial}: {oversold} too many.", values));
  if (v.lost_updates > 0) said.push(t("{lost} sold [unit is|units are] still counted: {final} in stock after {sold} of {initial} were sold (lost updates).", values));
  if (v.leaked > 0) said.push(t("Stock lost. {leaked} [unit is|units are] gone without an order.", values));
  if (v.doubles > 0) said.push(t("Charged twice. {doubles} [order|orders] beyond the first for the same key.", values));
  if (v.ack_lost > 0) said.push(t("Orders lost. {ack} acknowledged [order is|orders are] not there.", values));
  if (v.found.includes("X")) said.push(t("Stuck. {final} [unit is|units are] left, and nobody can buy [it|them].", values));
  if (v.found.includes("B")) said.push(t("A buyer has more than the limit."));
  if (v.found.includes("U")) said.push(t("Refused too early. Somebody was told sold out while there was enough."));
  if (said.length === 0) said.push(t("Broken."), ...(same ? v.violations ?? [] : []));
  return said;
}

const findings = words({
  confirmed: "As claimed.", contradicted: "Against its claim!",
  inconclusive: "The claim is neither confirmed nor refuted.", unclaimed: "",
});

// details are what stands below the sentence: the claim, the speed, the evidence.
export function details(result, run) {
  const stopped = tone(result) !== "bad" && (run.state === "stopped" || result.partial), same = run.spec.lang === lang();
  const v = worst(result);
  const accepted = result.latency?.accepted;
  const lines = [...(stopped ? [] : sentences(result, same).slice(1)), stopped ? null : findings(result.finding)];
  if (result.tries > 1) lines.push(t("It took {n} [run|runs] to show it.", { n: result.tries }));
  const h = result.holds, twice = result.plan?.holding?.double_clicks;
  if (twice) lines.push(t("Of 100 buyers, {n} [sends|send] each request twice at once: this run plays the hazard retry too.", { n: number(100 * twice) }));
  if (h) {
    lines.push(t("Of {n} [buyer|buyers], {reserved} reserved and {sold} paid; {cancelled} cancelled, {expired} let the reservation expire; {refunded} late [payment was|payments were] refunded.", { n: number(h.buyers), reserved: number(h.reserved), sold: number(h.sold), cancelled: number(h.cancelled), expired: number(h.expired), refunded: number(h.refunded) }),
      t("{rate} completed [sale|sales] per second; a confirm took {p50} at p50, {p99} at p99.", { rate: number(h.sales_per_second), p50: duration(h.latency.confirm?.p50_ns ?? 0), p99: duration(h.latency.confirm?.p99_ns ?? 0) }));
  } else if (accepted?.count > 0) {
    lines.push(t("{rate} accepted per second, p50 {p50}, p99 {p99}.", { rate: number(result.accepted_per_second), p50: duration(accepted.p50_ns), p99: duration(accepted.p99_ns) }));
  }
  const k = result.tickets;
  if (k) lines.push(t("Of {n} [ticket|tickets] {sold} ended as sold. Clients, who have to ask, were told the end {p50} after the 202 at p50, {p99} at p99, {rate} per second, the last {after} after the last answer of the load.", { n: number(k.won), sold: number(k.ends.sold ?? 0), after: duration(k.drained_ns), p50: duration(k.age.p50_ns ?? 0), p99: duration(k.age.p99_ns ?? 0), rate: number(k.completed_per_second) }));
  const noisy = result.discounted ? [result.discounted] : (result.noisy ?? []);
  const lost = lostAnswers(result);
  if (lost > 0) lines.push(t("{n} [request|requests] got no answer that says whether it happened.", { n: number(lost) }));
  return [
    el("p", { class: "verdict-more" }, lines.filter(Boolean).join(space())),
    noisy.length > 0 && el("details", { class: "noisy" }, el("summary", {}, t("Speeds are not to be trusted")), same ? el("p", {}, noisy[0]) : el("p", {}, t("The reason is told in the language of the window that started the run."))),
    v?.evidence?.length > 0 && evidence(v.evidence),
  ];
}

const shownEvidence = 3, shownOrders = 4;

function evidence(all) {
  return el("details", { class: "evidence", open: true }, el("summary", {}, t("Evidence")),
    el("ul", {}, all.slice(0, shownEvidence).map((e) => el("li", {},
      el("strong", {}, sale(e)), " ",
      el("ol", {}, (e.orders ?? []).slice(0, shownOrders).map((o) => el("li", {},
        el("code", { title: o.order_id }, shortened(o.order_id)), " ", t("replica {n}", { n: o.replica }), " ", el("time", {}, clock(o.created_at)))),
      e.times > shownOrders && el("li", { class: "soft" }, t("and {n} more", { n: number(e.times - shownOrders) })))))));
}

// sale says what happened to a unit.
function sale(e) {
  const unit = number(e.unit);
  return e.unit > e.of ? t("Unit {unit} of {of} was sold", { unit, of: number(e.of) }) : t("Unit {unit} was sold {times} [time|times]", { unit, times: number(e.times) });
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
