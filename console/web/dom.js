// el makes an element. Text is set as text, never as markup; a property that is a function listens, the others are attributes.
export function el(tag, properties = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") e.addEventListener(name, value);
    else if (name === "class") e.className = value;
    else if (name in e && typeof value !== "string") e[name] = value;
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

export function replace(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
}

// decoded is a part of an address without its percent signs, or as it is if they are malformed.
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// css reads a colour of the theme.
export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
