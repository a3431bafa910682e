// Names of objects come from the clusters and are not trusted: everything here
// sets text, never markup.

// el makes an element: el("span", {class: "x"}, "text", otherElement, ...).
export function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.filter((c) => c !== undefined && c !== null && c !== false && c !== ""));
  return e;
}

export const byId = (id) => document.getElementById(id);

// plural returns "1 service", "2 services".
export function plural(n, word) {
  return n.toLocaleString("en") + " " + word + (n === 1 ? "" : "s");
}

// age says how long ago a time was.
export function ageText(then) {
  const s = Math.max(0, Math.floor((Date.now() - then) / 1000));
  if (s < 120) return s + "s";
  if (s < 3600 * 3) return Math.floor(s / 60) + "m";
  if (s < 86400 * 2) return Math.floor(s / 3600) + "h";
  return Math.floor(s / 86400) + "d";
}

// age makes an element that keeps telling how long ago a time was.
export function age(iso) {
  const e = el("time", { class: "age", datetime: iso, title: new Date(iso).toLocaleString() });
  e.textContent = ageText(Date.parse(iso));
  return e;
}

export function refreshAges() {
  for (const e of document.querySelectorAll("time.age")) {
    const text = ageText(Date.parse(e.getAttribute("datetime")));
    if (e.textContent !== text) e.textContent = text;
  }
}

// badge shows a state; its class carries the colour.
export function badge(text, detail) {
  return el("span", { class: "badge s-" + text.replace(/[^A-Za-z]/g, "").toLowerCase(), title: detail }, text);
}

// meter shows how much of a total is served, as text and as a bar.
export function meter(served, total) {
  const bar = el("span", { class: "fill" });
  bar.style.inlineSize = (total ? (100 * served) / total : 0) + "%";
  const kind = total === 0 ? "empty" : served === 0 ? "bad" : served < total ? "part" : "full";
  return el("span", { class: "meter " + kind },
    el("span", { class: "num" }, served.toLocaleString("en") + " / " + total.toLocaleString("en")),
    el("span", { class: "track", "aria-hidden": "true" }, bar));
}

// keep makes the children of a parent be one element per item, in their order.
// An element whose item says the same as before stays as it is, and with it the
// focus and what was opened. render(item, old) may return old, changed.
export function keep(parent, items, key, render) {
  const wanted = new Set(items.map(key));
  const before = new Map();
  for (const e of [...parent.children]) {
    if (wanted.has(e.dataset.key)) before.set(e.dataset.key, e);
    else e.remove();
  }
  let at = parent.firstElementChild;
  for (const item of items) {
    const k = key(item);
    const says = JSON.stringify(item);
    const old = before.get(k);
    let e = old;
    if (!old || old.says !== says) {
      const focused = old && old.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
      e = render(item, old);
      e.dataset.key = k;
      e.says = says;
      if (old && old !== e) {
        if (at === old) at = e;
        old.replaceWith(e);
        if (focused) e.querySelector('[data-focus="' + focused + '"]')?.focus();
      }
    }
    if (e === at) at = at.nextElementSibling;
    else parent.insertBefore(e, at);
  }
}
