import { age, byId, el, keep } from "./dom.js";

// showProxies draws a row for each connected client.
export function showProxies(list) {
  byId("proxies-count").textContent = list.total ? list.total.toLocaleString("en") + (list.items.length < list.total ? ", first " + list.items.length + " shown" : "") : "";
  byId("proxies-none").hidden = list.total > 0;
  keep(byId("proxy-rows"), list.items, (p) => p.id + "\n" + p.connected + "\n" + p.peer, row);
}

function row(p) {
  const parts = p.id.split("~");
  const name = parts.length === 4 ? parts[2] : p.id;
  const about = [parts.length === 4 ? parts[0] : p.userAgent, p.istioVersion ? "Istio " + p.istioVersion : "", p.protocol, p.peer].filter(Boolean).join(" · ");
  return el("tr", {},
    el("td", { title: p.id }, el("b", {}, name), el("span", { class: "muted small block" }, about)),
    el("td", {}, p.cluster || "–"),
    el("td", {}, age(p.connected)),
    el("td", {}, ...p.types.map(typeChip), ...p.types.filter((t) => t.failure).map((t) => el("p", { class: "reason" }, t.type + " refused: " + t.failure))));
}

const colours = { SYNCED: "good", STALE: "warn", ERROR: "bad", "NOT SENT": "" };

function typeChip(t) {
  const about = [t.all ? "all resources" : t.names + " names", t.version ? "version " + t.version : "", t.failure ? "refused: " + t.failure : ""].filter(Boolean).join("\n");
  return el("span", { class: "chip " + colours[t.state], title: about }, t.type + " " + t.state);
}
