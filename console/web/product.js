import { el, replace } from "./dom.js";
import { colon, lang, number, space, t, words } from "./i18n.js";
import { get, post, Unauthorized } from "./stream.js";
import { lookPanel } from "./tickets.js";

const every = 2000, slowest = 30000; // milliseconds between two readings: of a long list more, and the latter where the shop does not answer
const mostDeeds = 50, mostEvents = 60;

const figureNames = words({ initial: "initial stock", free: "free", held: "held#units", sold: "sold", gone: "written off", orders: "orders" });
const stateWord = words({ held: "held#units", confirmed: "paid", cancelled: "cancelled", expired: "expired", void: "void", overdue: "overdue" });

// ProductView shows a product while it is sold, and lets whoever has the token act by hand: #/product/101.
export class ProductView {
  constructor(app) {
    this.app = app;
    this.id = 101;
    this.query = "";
    this.deeds = []; // what was done by hand, the last first
    this.turn = 0; // of the readings: only the last one counts
  }

  show(main, asked) {
    const id = Number(asked);
    if (Number.isInteger(id) && id > 0 && id !== this.id) Object.assign(this, { id, deeds: [], shelf: null });
    this.build(main);
    this.draw();
    return this.read();
  }

  // update is called with each frame of a run, and when the tab is shown again.
  update() {
    if (!this.timer && !this.reading) this.read();
  }

  // read reads the product and draws it, again and again while the page is shown.
  async read() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (document.hidden || this.app.view !== this) return;
    const turn = ++this.turn;
    this.reading = true;
    const began = performance.now();
    try {
      const shelf = await get(`products/${this.id}?q=${encodeURIComponent(this.query)}`);
      if (turn !== this.turn) return;
      Object.assign(this, { shelf, wrong: "", pause: Math.max(every, 4 * (performance.now() - began)) });
    } catch (err) {
      if (turn !== this.turn) return;
      this.reading = false;
      if (err instanceof Unauthorized) return;
      this.wrong = err.status === 404 ? t("There is no product {id}.", { id: this.id }) : err.message;
      this.pause = Math.min(slowest, 2 * (this.pause ?? every));
    }
    this.reading = false;
    if (this.app.view !== this) return;
    this.draw();
    this.timer = setTimeout(() => this.read(), this.pause);
  }

  build(main) {
    const acts = Boolean(this.app.state);
    const field = (name, text, type, value, more = {}) => el("div", { class: "field" }, el("label", { for: `p-${name}` }, text), el("input", { type, id: `p-${name}`, value: String(value), ...more }));
    const units = { min: "1", required: true, inputmode: "numeric" };
    const choose = (e) => { e.preventDefault(); location.hash = `#/product/${this.value("product")}`; };
    const search = el("input", { type: "search", value: this.query, autocomplete: "off", placeholder: t("Id, buyer, state, key, mode …"), "aria-label": t("Search orders, reservations and keys"), input: () => {
      this.query = search.value;
      clearTimeout(this.typed);
      this.typed = setTimeout(() => this.read(), 250);
    } });
    this.says = el("p", { class: "product-says", role: "status" });
    const hold = (e) => { e.preventDefault(); this.act("hold", this.value("mode"), { product_id: this.id, quantity: Number(this.value("units")), buyer: this.value("buyer") || undefined, hold_ms: 1000 * this.value("seconds") }); };
    const adjust = (e) => { e.preventDefault(); this.act("adjust", "", { delta: Number(this.value("delta")), reason: this.value("reason") || undefined }); };
    const modes = (this.app.state?.modes ?? []).filter((m) => m.reserves && m.available);
    const side = el("div", { class: "controls" }, el("h1", { class: "hidden" }, t("Product")),
      el("form", { class: "with-button", submit: choose }, field("product", t("Product"), "number", this.id, units), el("button", { type: "submit", class: "quiet" }, t("Open"))),
      search, this.says,
      !acts && el("p", { class: "note" }, t("Read-only: reservations, keys and everything that changes stock are for whoever has the stack's token."), space(), el("a", { href: "#/run" }, t("Give the token"))),
      acts && el("form", { class: "product-form", submit: hold }, el("h2", {}, t("Hold units")),
        el("div", { class: "field" }, el("label", { for: "p-mode" }, t("Mode")), el("select", { id: "p-mode" }, modes.map((m) => el("option", { selected: m.name === "reserve-sql" }, m.name)))),
        field("units", t("Units"), "number", 1, units), field("buyer", t("Buyer"), "text", "", { maxlength: "64", autocomplete: "off" }), field("seconds", t("For so many seconds"), "number", 900, units),
        el("button", { type: "submit", class: "quiet" }, t("Hold"))),
      acts && el("form", { class: "product-form", submit: adjust }, el("h2", {}, t("Adjust the stock")),
        field("delta", t("Units to add; below zero, to take"), "number", 10, { required: true }), field("reason", t("Reason"), "text", "", { maxlength: "66", autocomplete: "off" }),
        el("button", { type: "submit", class: "quiet" }, t("Adjust"))));
    this.lists = {
      stock: list(t("Stock"), [t("store"), ...figureNames.names.map(figureNames)]),
      events: list(t("Timeline"), [t("at"), t("what"), t("id"), t("replica")]),
      held: list(t("Reservations"), [t("state"), t("units"), t("buyer"), t("until"), t("mode"), t("reservation"), t("by hand")]),
      orders: list(t("Orders"), [t("at"), t("units"), t("mode"), t("store"), t("key or payment"), t("order"), t("by hand")]),
      keys: list(t("Keys"), [t("key"), t("answer#status"), t("mode"), t("at")]),
    };
    this.lists.held.box.hidden = this.lists.keys.box.hidden = !acts;
    this.look = lookPanel(() => this.act("look", "", {}));
    this.error = el("p", { class: "message", role: "alert" });
    this.note = el("p", { class: "note" });
    replace(main, el("div", { class: "run product" }, side, el("div", { class: "stage" }, this.error, this.note, this.lists.stock.box, this.look.box, Object.values(this.lists).slice(1).map((l) => l.box))));
  }

  value(name) {
    return document.getElementById(`p-${name}`).value.trim();
  }

  draw() {
    const { shelf } = this;
    this.error.textContent = this.wrong ?? "";
    this.note.textContent = shelf?.more ? t("This product has more rows than the page reads: the newest may be missing.") : "";
    if (!shelf) return;
    const { orders, keys } = shelf.ledger, held = shelf.reservations.flatMap((r) => r.reservations.map((row) => ({ ...row, overdue: row.state === "held" && row.expires_us <= r.as_of_us }))).sort((a, b) => b.changed_us - a.changed_us);
    const back = new Map(held.flatMap((r) => r.orders ?? []).map((o) => [o.order_id, sum(o.returns)]));
    const { lists } = this, [n, of, k] = shelf.found;
    const set = Math.max(0, ...Object.values(shelf.ledger.adjustments ?? {}).flat().filter((a) => !a.key).map((a) => a.at_us ?? 0));
    const looked = this.deeds.find((d) => d.do === "look" && d.at > set); // of another run it says nothing
    this.look.box.hidden = !shelf.acts || !shelf.ledger.passed && !shelf.ledger.in_flight;
    this.look.draw(looked, this.id, looked && when(looked.at));
    lists.stock.draw(stocks(shelf), (s) => s.store, (s) => [s.store, ...figureNames.names.map((name) => number(s[name]))]);
    lists.held.draw(held, (r) => r.reservation_id, (r) => [stateWord(r.overdue ? "overdue" : r.state), number(r.quantity), r.buyer ?? "", when(r.expires_us), r.mode, el("code", {}, r.reservation_id),
      r.state === "held" && this.tools(r.reservation_id, r.quantity, [[t("Pay"), () => this.act("confirm", r.reservation_id)], [t("Cancel"), (part) => this.act("cancel", r.reservation_id, part && { product_id: this.id, quantity: part })]], 1)], n);
    lists.orders.draw(orders.map((o) => ({ ...o, back: back.get(o.order_id) ?? 0, acts: shelf.acts && !shelf.ledger.passed })), (o) => o.order_id, (o) => [when(Date.parse(o.created_at) * 1000), o.back ? t("{n}, {back} returned", { n: number(o.quantity), back: number(o.back) }) : number(o.quantity), o.mode, o.store, el("code", {}, o.key ?? ""), el("code", {}, o.order_id),
      o.acts && o.back < o.quantity && this.tools(o.order_id, o.quantity - o.back, [true, false].map((restock) => [restock ? t("Return") : t("Write off"), (part) => this.act("return", o.order_id, { restock, ...(part && { quantity: part }) })]))], of);
    lists.keys.draw(keys ?? [], (row) => row.key + row.created_at, (row) => [el("code", {}, row.key), row.status === 0 ? t("in progress") : String(row.status), row.mode ?? "", when(Date.parse(row.created_at) * 1000)], k);
    const all = [...this.deeds.map((d) => ({ ...d, text: this.told(d) })), ...events(shelf, held)].sort((a, b) => b.at - a.at).slice(0, mostEvents);
    lists.events.draw(all, (e) => `${e.at}${e.id}${e.key ?? e.text}`, (e) => [when(e.at), e.do ? [el("strong", {}, t("By hand") + colon()), e.text, e.done?.happened === "unknown" && [space(), el("button", { type: "button", class: "quiet", click: () => this.send(this.deeds.find((d) => d.key === e.key)) }, t("Repeat with the same key"))]] : e.text, el("code", {}, e.id ?? ""), e.replica ?? e.done?.replica ?? ""]);
  }

  // tools are the buttons of a row, before them how many of its units; whole of them are about all units always.
  tools(id, most, buttons, whole = 0) {
    const units = el("input", { type: "number", min: "1", max: String(most), value: String(most), class: "units", "aria-label": t("Units of {id}", { id }) });
    const press = (act, i) => () => {
      if (i < whole || units.reportValidity() && units.value) act(i < whole || Number(units.value) === most ? 0 : Number(units.value));
    };
    const made = buttons.map(([text, act], i) => el("button", { type: "button", class: "quiet", "aria-label": `${text} ${id}`, click: press(act, i) }, text));
    return el("span", { class: "row-tools" }, made.slice(0, whole), most > 1 && units, made.slice(whole));
  }

  // act sends a request of the contract, with a new key.
  act(what, of, body) {
    if (this.sending) return;
    const key = [...crypto.getRandomValues(new Uint8Array(10))].map((b) => b.toString(16).padStart(2, "0")).join("");
    const d = { at: Date.now() * 1000, do: what, id: of, with: body || undefined, key: `console-${key}` };
    this.deeds = [d, ...this.deeds].slice(0, mostDeeds);
    this.send(d);
  }

  // send sends a deed once. Where the answer is lost, nobody knows whether it was done: the reader may repeat it.
  async send(d) {
    if (this.sending) return;
    this.sending = true;
    Object.assign(d, { done: null, after: null, before: this.shelf && stocks(this.shelf) });
    this.says.textContent = this.told(d);
    this.draw();
    try {
      d.done = await post(`products/${this.id}/acts`, { do: d.do, of: d.id, key: d.key, with: d.with });
    } catch (err) {
      const refused = err instanceof Unauthorized || [400, 403, 404].includes(err.status); // the console sent nothing
      d.done = { happened: refused ? "no" : "unknown", lost: err.message };
    }
    this.sending = false;
    await this.read();
    if (!this.deeds.includes(d)) return; // another product is shown
    d.after = this.shelf && stocks(this.shelf);
    this.says.textContent = this.told(d);
    if (this.app.view === this) this.draw();
  }

  // told says what a deed was and what became of it.
  told(d) {
    const n = d.with?.quantity, part = n ? t("{n} [unit|units] of {id}", { n: number(n), id: d.id }) : d.id;
    const what = {
      hold: () => t("hold {n} [unit|units] for {buyer}", { n: number(n), buyer: d.with.buyer || t("nobody in particular") }), confirm: () => t("pay {id}", { id: d.id }), cancel: () => t("cancel {part}", { part }),
      return: () => (d.with.restock ? t("return {part} to the stock", { part }) : t("return {part} and write off", { part })), adjust: () => t("adjust the stock by {n}", { n: (d.with.delta > 0 ? "+" : "") + number(d.with.delta) }),
      look: () => t("look at Redis and SQL"),
    }[d.do]();
    if (!d.done) return `${what} …`;
    const { happened, said, lost, replayed } = d.done, why = said ? `${said.code}${colon()}${said.detail ?? said.title ?? ""}` : lost;
    const became = { "": t("done"), no: t("refused, {why}", { why }), no_for_now: t("refused for now, {why}", { why }) }[happened] ?? t("it is unknown whether it happened ({why})", { why });
    const more = [replayed && t("the answer of the first time"), said?.refund === true && t("the payment goes back to its buyer"), happened === "unknown" && t("repeat it only with its key {key}", { key: d.key }), d.before && d.after && moves(d.before, d.after)];
    return [`${what}${colon()}${became}`, ...more.filter(Boolean)].join(t("; "));
  }
}

// list is a table with a heading, whose rows stay the same elements as long as what they show does: a number that somebody types stays, and
// so does the focus.
function list(name, heads) {
  const count = el("span", { class: "soft small" }), body = el("tbody"), none = el("p", { class: "soft" }, t("None."));
  const region = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, el("table", {}, el("thead", {}, el("tr", {}, heads.map((h) => el("th", { scope: "col" }, h)))), body));
  let kept = new Map();
  return {
    box: el("section", { class: "product-list" }, el("h2", {}, name, " ", count), region, none),
    draw(rows, key, cells, found = rows.length) {
      count.textContent = found > rows.length ? t("{n} of {of}", { n: number(rows.length), of: number(found) }) : number(rows.length);
      none.hidden = rows.length > 0;
      region.hidden = rows.length === 0;
      const next = rows.map((r) => {
        const json = JSON.stringify(r), old = kept.get(key(r));
        return [key(r), old?.json === json ? old : { json, tr: el("tr", {}, cells(r).map((c) => el("td", {}, c))) }];
      });
      kept = new Map(next);
      const trs = [...kept.values()].map((row) => row.tr), inside = body.contains(document.activeElement);
      for (const tr of [...body.children]) if (!trs.includes(tr)) tr.remove();
      trs.forEach((tr, i) => tr !== body.children[i] && body.insertBefore(tr, body.children[i] ?? null));
      if (inside && !body.contains(document.activeElement)) region.focus({ preventScroll: true }); // the row has other buttons now, or none
    },
  };
}

const sum = (parts) => (parts ?? []).reduce((n, p) => n + p.quantity, 0);

// stocks are the figures of each store.
function stocks({ ledger, reservations }) {
  return Object.keys(ledger.initial ?? {}).sort().map((store) => {
    const r = reservations.find((x) => x.store === store), { orders = 0, units = 0 } = ledger.totals?.[store] ?? {};
    return { store, initial: ledger.initial[store], free: ledger.stock[store], held: r?.held ?? 0, sold: r?.ordered ?? units, gone: r?.written_off ?? 0, orders };
  });
}

// moves says which figures of a product differ between two readings.
function moves(before, after) {
  return after.map((now) => {
    const was = before.find((s) => s.store === now.store) ?? now, moved = figureNames.names.filter((name) => was[name] !== now[name]);
    return moved.length > 0 && now.store + colon() + moved.map((name) => `${figureNames(name)} ${number(was[name])} → ${number(now[name])}`).join(t(", "));
  }).filter(Boolean).join(t("; "));
}

// events are what the books of a product tell.
function events({ ledger }, held) {
  const all = [];
  for (const [store, made] of Object.entries(ledger.adjustments ?? {})) {
    made.forEach((a) => a.at_us && all.push({ at: a.at_us, id: store, text: !a.key ? t("stock set to {n}", { n: number(a.delta) }) : t("stock adjusted by {n}", { n: (a.delta > 0 ? "+" : "") + number(a.delta) }) + (a.reason ? `${t(", ")}${a.reason}` : "") }));
  }
  for (const r of held) {
    const of = { id: r.reservation_id }, first = number(r.quantity + sum(r.events.filter((e) => e.quantity)));
    for (const e of r.events) {
      const text = !e.was ? t("{n} [unit|units] held for {buyer}", { n: first, buyer: r.buyer || t("nobody in particular") }) : e.quantity ? t("{n} [unit|units] cancelled", { n: number(e.quantity) }) : e.now === "held" ? t("deadline moved to {when}", { when: when(e.deadline_us) }) : stateWord(e.now);
      all.push({ ...of, at: e.at_us, text, replica: e.replica });
    }
    for (const p of (r.payments ?? []).filter((x) => !x.order_id)) all.push({ ...of, at: p.at_us, text: t("payment {id} goes back to its buyer", { id: p.payment }) });
  }
  for (const o of ledger.orders) if (!o.reservation_id) all.push({ id: o.order_id, at: Date.parse(o.created_at) * 1000, text: ledger.passed ? t("{n} [unit|units] won by {mode}; in SQL since", { n: number(o.quantity), mode: o.mode }) : t("{n} [unit|units] sold by {mode}", { n: number(o.quantity), mode: o.mode }), replica: o.replica });
  return all;
}

// when writes a time, microseconds since 1970, with its day if that is not today.
function when(us) {
  const at = new Date(us / 1000), clock = at.toLocaleTimeString(lang(), { hourCycle: "h23" });
  return at.toDateString() === new Date().toDateString() ? clock : `${at.toLocaleDateString(lang())} ${clock}`;
}
