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

// listen follows the events. While the tab is hidden nothing is received; what was missed comes when it is shown again.
export function listen(on, state) {
  let source = null;
  let last = "";
  const kinds = ["snapshot", "begin", "load", "step", "frame", "result", "end"];
  function open() {
    if (source || document.hidden) return;
    source = new EventSource(last ? `api/events?last=${last}` : "api/events");
    source.onopen = () => state("live");
    source.onerror = () => state("lost");
    for (const kind of kinds) {
      source.addEventListener(kind, (e) => {
        last = e.lastEventId;
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
  const timer = setInterval(async () => {
    if (source?.readyState !== EventSource.CLOSED) return;
    try {
      await get("state");
      close();
      open();
    } catch (err) {
      if (err instanceof Unauthorized) clearInterval(timer);
    }
  }, 2000);
  state("connecting");
  open();
}
