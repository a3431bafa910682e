import { badge, byId, el, keep, meter, plural } from "./dom.js";

const opened = new Map(); // key of a service -> what is shown of its endpoints
const pageSize = 500;

export async function getJSON(url) {
  const response = await fetch(url, { cache: "no-store" });
  const body = await response.json();
  if (!response.ok) throw new Error(body.error || response.statusText);
  return body;
}

const keyOf = (s) => s.namespace + "/" + s.host;

// showServices draws a row for each service, and below it the endpoints of those
// that are open.
export function showServices(list) {
  keep(byId("service-rows"), list.items.flatMap((s) => [s, { detail: true, host: s.host, namespace: s.namespace }]),
    (s) => (s.detail ? "d:" : "s:") + keyOf(s), (s, old) => (s.detail ? detailRow(s, old) : row(s)));
  const unheard = list.unheardClusters || [];
  byId("unheard").hidden = !unheard.length;
  byId("unheard").textContent = "Nothing is known yet of " + unheard.join(", ") + ": what is there is missing here.";
  for (const s of list.items) {
    const open = opened.get(keyOf(s));
    if (open && open.revision !== s.revision) load(s, open);
  }
}

function row(s) {
  const key = keyOf(s);
  const name = s.host.split(".")[0];
  const open = opened.has(key);
  const button = el("button", {
    type: "button", class: "toggle", "data-focus": "toggle", "aria-expanded": String(open), "aria-controls": "endpoints-" + key,
    onclick: () => toggle(s, button),
  }, el("span", { class: "chevron", "aria-hidden": "true" }), el("span", { class: "host" }, el("b", {}, name), el("span", { class: "muted" }, s.host.slice(name.length))));
  return el("tr", { class: "service" },
    el("td", {}, button,
      s.resolution !== "ClientSideLB" ? el("span", { class: "chip", title: "How clients find its endpoints" }, s.resolution) : null,
      s.conflicts ? el("span", { class: "chip warn", title: s.conflicts.map(conflictText).join("\n") }, plural(s.conflicts.length, "conflict")) : null),
    el("td", { class: "ports" }, ...s.ports.map((p) => el("span", { class: "chip", title: p.targetPort ? "target port " + p.targetPort : undefined }, p.port + " " + (p.name || p.protocol)))),
    el("td", {}, ...s.clusters.map((c) => clusterChip(c))),
    el("td", {}, meter(s.served, s.endpoints)),
    el("td", { class: "muted num" }, String(s.revision)));
}

function clusterChip(c) {
  const vips = c.vips ? "\nVIP " + c.vips.join(", ") : "";
  const kind = c.endpoints === 0 ? "" : c.served === 0 ? " bad" : c.served < c.endpoints ? " warn" : " good";
  return el("span", { class: "chip" + kind, title: c.served + " of " + c.endpoints + " endpoints served" + (c.defined ? "" : "\nnot defined here") + vips },
    c.cluster + " " + c.served + "/" + c.endpoints);
}

function conflictText(c) {
  return c.field + ": " + c.winner + " wins over " + c.loser + (c.detail ? " (" + c.detail + ")" : "");
}

function detailRow(s, old) {
  if (old) return old;
  const cell = el("td", { colspan: "5", id: "endpoints-" + keyOf(s) });
  const tr = el("tr", { class: "detail" }, cell);
  const open = opened.get(keyOf(s));
  tr.hidden = !open;
  if (open) {
    open.cell = cell;
    draw(open);
  }
  return tr;
}

function toggle(s, button) {
  const key = keyOf(s);
  const cell = document.getElementById("endpoints-" + key);
  const open = !opened.has(key);
  button.setAttribute("aria-expanded", String(open));
  cell.parentElement.hidden = !open;
  if (!open) {
    opened.delete(key);
    cell.replaceChildren();
    return;
  }
  const state = { cell, limit: pageSize };
  opened.set(key, state);
  cell.replaceChildren(el("p", { class: "muted" }, "Loading…"));
  load(s, state);
}

async function load(s, open) {
  open.revision = s.revision;
  open.service = s;
  const query = new URLSearchParams({ host: s.host, namespace: s.namespace, limit: String(open.limit) });
  try {
    open.list = await getJSON("/api/v1/endpoints?" + query);
    open.error = undefined;
  } catch (e) {
    open.error = e.message;
  }
  draw(open);
}

// draw shows the endpoints of one open service, cluster by cluster.
function draw(open) {
  if (open.error) {
    open.cell.replaceChildren(el("p", { class: "reason" }, "The endpoints could not be read: " + open.error));
    return;
  }
  if (!open.list) return;
  const parts = [];
  if (open.service.conflicts) {
    parts.push(el("ul", { class: "conflicts" }, ...open.service.conflicts.map((c) => el("li", {}, conflictText(c)))));
  }
  const groups = new Map();
  for (const e of open.list.items) {
    const name = e.provider === "Kubernetes" ? e.cluster : e.provider + "/" + e.cluster;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(e);
  }
  for (const [name, list] of groups) {
    parts.push(el("div", { class: "group" },
      el("h4", {}, name, " ", el("span", { class: "muted" }, plural(new Set(list.map((e) => e.slice + " " + e.address)).size, "endpoint"))),
      el("table", { class: "endpoints" },
        el("thead", {}, el("tr", {}, ...["Address", "State", "Workload", "Locality", "Node", "Slice"].map((h) => el("th", { scope: "col" }, h)))),
        el("tbody", {}, ...list.map(endpointRow)))));
  }
  const query = new URLSearchParams({ host: open.service.host, namespace: open.service.namespace });
  parts.unshift(el("p", { class: "small" }, el("a", { href: "/debug/explain?" + query }, "Explain: which rule decided about each of them")));
  if (!groups.size) parts.push(el("p", { class: "muted" }, "It has no endpoints in any cluster."));
  if (open.list.continue) {
    parts.push(el("button", { type: "button", onclick: () => { open.limit = Math.min(5000, open.limit + pageSize); load(open.service, open); } }, "Show more endpoints"));
  }
  open.cell.replaceChildren(...parts);
}

function endpointRow(e) {
  const ports = [...new Set((e.ports || []).map((p) => p.target))].join(", ");
  const host = e.address.includes(":") ? "[" + e.address + "]" : e.address;
  let why = e.reason || "";
  if (e.shadowedBy) why += ": " + [e.shadowedBy.provider + "/" + e.shadowedBy.cluster, e.shadowedBy.workload || e.shadowedBy.slice].join(" ");
  return el("tr", {},
    el("td", { class: "num" }, host, ports ? el("span", { class: "muted" }, ":" + ports) : null),
    el("td", {}, badge(e.state, why), e.moving ? badge("moving") : null, why ? el("span", { class: "why" }, why) : null),
    el("td", {}, e.workload || "–", e.serviceAccount ? el("span", { class: "muted small block" }, e.serviceAccount) : null),
    el("td", {}, e.locality || "–", e.network ? el("span", { class: "muted small block" }, "network " + e.network) : null),
    el("td", {}, e.node || "–"),
    el("td", { class: "muted small" }, e.slice));
}
