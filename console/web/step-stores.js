import { el } from "./dom.js";
import { t } from "./i18n.js";

// stores is what Redis and the database hold before and after a move, side by side; what has changed stands out.
export function stores(before, after, moved) {
  const parts = [];
  parts.push(part("Redis", keys(before), keys(after), moved));
  for (const table of after.sql ?? []) parts.push(part(table.name, rows(before, table.name), rows(after, table.name), moved));
  return parts.filter(Boolean);
}

const keys = (s) => new Map(s.redis.map((k) => [k.key, k]));
const rows = (s, name) => {
  const table = s.sql.find((x) => x.name === name);
  return new Map(table.rows.map((r) => [r[0], { kind: "row", values: r.slice(1), columns: table.columns.slice(1), ttl: -1 }]));
};

const same = (x, y) => JSON.stringify(x?.values) === JSON.stringify(y?.values);

function part(name, before, after, moved) {
  const all = [...new Set([...before.keys(), ...after.keys()])];
  if (all.length === 0) return null;
  return el("div", { class: "store" }, el("table", {},
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, el("span", { class: "server" }, name)), moved && el("th", { scope: "col" }, t("before")), el("th", { scope: "col" }, moved ? t("after") : t("now")))),
    el("tbody", {}, all.map((key) => {
      const changed = !same(before.get(key), after.get(key));
      return el("tr", { class: changed ? "is-changed" : "" }, el("th", { scope: "row" }, el("code", {}, key)), moved && el("td", {}, value(before.get(key))),
        el("td", {}, value(after.get(key), before.get(key)), changed && el("span", { class: "hidden" }, ` (${t("changed")})`)));
    }))));
}

// value draws a key or a row; of a row the columns that differ stand out.
function value(v, other) {
  if (!v) return el("span", { class: "soft" }, "–");
  const expires = v.ttl >= 0 && el("span", { class: "ttl" }, t("TTL"));
  if (v.kind === "row") {
    return el("span", { class: "cells" }, v.columns.map((c, i) => el("span", { class: other && other.values[i] !== v.values[i] ? "cell is-new" : "cell" }, el("span", { class: "column" }, c), el("code", {}, v.values[i]))));
  }
  if (v.kind === "hash" || v.kind === "stream") {
    const pairs = [];
    for (let i = 0; i < v.values.length; i += 2) pairs.push(el("span", { class: "cell" }, el("code", {}, v.values[i]), el("code", {}, v.values[i + 1])));
    return el("span", { class: "cells" }, pairs, expires);
  }
  return el("span", { class: "cells" }, v.values.map((x) => el("code", { class: "cell" }, x === "" ? "''" : x)), expires);
}
