// The two languages of the page: English stands in the code, its Chinese in zh.json, by the English. A test holds the two against each other.
const zh = await (await fetch("zh.json")).json();

let current = "en";

export function pickLanguage() {
  const asked = new URLSearchParams(location.search).get("lang") ?? localStorage.getItem("lastitem.lang");
  const wanted = asked ?? (navigator.languages ?? [navigator.language]).find((l) => /^(zh|en)/i.test(l)) ?? "en";
  setLanguage(/^zh/i.test(wanted) ? "zh" : "en");
}

export function setLanguage(lang) {
  current = lang;
  document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
}

export const lang = () => current;

// otherLanguage is the name of the language that is not shown, in that language.
export const otherLanguage = () => (current === "zh" ? "English" : zh.English);

// space is what separates a word from the text after it: Chinese has no spaces.
export const space = () => t(" ");

// colon and bracketed punctuate as the language does.
export const colon = () => t(": ");
export const bracketed = (text) => t(" ({text})", { text });

// t says an English text in the language of the page, with {names} filled in; "[unit|units]" becomes its first form if the number before it is
// 1, else its second. "sold#answer" tells one "sold" from another, which Chinese says differently.
export function t(english, values = {}) {
  const text = (current === "zh" ? zh[english] : undefined) ?? english.replace(/#[a-z]+$/, "");
  let one = false;
  return text.replace(/\{(\w+)\}|\[([^\][|{]*)\|([^\][|{]*)\]/g, (_, name, first, second) => {
    if (name === undefined) return one ? first : second;
    const value = String(values[name] ?? "");
    if (/^[\d.,]+$/.test(value)) one = value === "1";
    return value;
  });
}

// words returns a function that says the text which a table has for a name, or the name itself.
export function words(table) {
  return Object.assign((name) => (name in table ? t(table[name]) : name), { names: Object.keys(table) });
}

// both picks the language of a text that the server gives in both.
export const both = (text) => (text ? text[current] || text.en : "");

// number writes a number with at most so many decimals; always, of which are always written.
export const number = (n, digits = 0, always = 0) =>
  new Intl.NumberFormat(current === "zh" ? "zh-CN" : "en", { maximumFractionDigits: digits, minimumFractionDigits: always }).format(n);

// duration writes nanoseconds for people.
export function duration(ns) {
  if (ns >= 1e9) return `${number(ns / 1e9, 2)} s`;
  if (ns >= 1e6) return `${number(ns / 1e6, ns >= 1e8 ? 0 : 1)} ms`;
  return `${number(ns / 1e3)} µs`;
}
