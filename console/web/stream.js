// The connection to the console: the session, calls, and the events of the run.
import { t } from "./i18n.js";

export class Unauthorized extends Error {}

async function call(method, path, body, headers = {}) {
  const res = await fetch(`api/${path}`, {
    method, headers: body === undefined ? headers : { ...headers, "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin",
  }).catch(() => { throw new Error(t("the console does not answer")); });
  if (res.status === 401) {
    if (path !== "session") dispatchEvent(new Event("session-ended"));
    throw new Unauthorized();
  }
  const text = await res.text();
  const value = text && res.headers.get("Content-Type")?.startsWith("application/json") ? JSON.parse(text) : text;
  if (!res.ok) throw Object.assign(new Error(value.error ?? res.statusText), { status: res.status });
  return value;
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);
export const remove = (path) => call("DELETE", path);
export const login = (token) => call("POST", "session", undefined, { Authorization: `Bearer ${token}` });

const silence = 6000; // milliseconds, after which the console cannot be reached

// listen follows the events. While the tab is hidden nothing is received; what was missed comes when it is shown again.
export function listen(on, state) {
  let source = null;
  let last = "", heard = 0; // the last event, and when anything came
  const kinds = ["snapshot", "begin", "load", "step", "frame", "result", "end"];
  function open() {
    if (source || document.hidden) return;
    source = new EventSource(last ? `api/events?last=${last}` : "api/events");
    heard = performance.now();
    source.onopen = () => { heard = performance.now(); state("live"); };
    source.addEventListener("alive", () => { heard = performance.now(); });
    source.onerror = () => state("lost");
    for (const kind of kinds) {
      source.addEventListener(kind, (e) => {
        last = e.lastEventId;
        heard = performance.now();
        on(kind, JSON.parse(e.data));
      });
    }
  }
  function close() {
    source?.close();
    source = null;
  }
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  // The browser does not come back by itself after some errors, such as that of a console that was started again, which knows no session yet.
  // Nor does it notice a network that was cut without a word: the console says every two seconds that it is alive.
  const timer = setInterval(async () => {
    if (source && performance.now() - heard > silence) {
      state("lost");
      close();
      open();
    }
    if (source?.readyState !== EventSource.CLOSED) return;
    try {
      await get("state");
      close();
      open();
    } catch (err) {
      if (err instanceof Unauthorized) clearInterval(timer);
    }
  }, 1000);
  state("connecting");
  open();
}
