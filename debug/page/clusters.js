import { age, badge, byId, el, keep, meter, plural } from "./dom.js";

// showClusters draws a tile for each cluster; pick is called with the id of one
// whose services somebody wants to see.
export function showClusters(clusters, pick) {
  const items = clusters.length ? clusters : [{ id: "", none: true }];
  keep(byId("clusters"), items, (c) => [c.id, c.secret, c.file, c.dir].join("\n"), (c) => (c.none ? nothing() : tile(c, pick)));
}

function nothing() {
  return el("li", { class: "none" }, "No cluster is known yet.");
}

function tile(c, pick) {
  const from = c.secret ? "secret " + c.secret : c.file ? "file " + c.file : c.dir ? c.dir : c.type;
  return el("li", { class: "tile t-" + c.state },
    el("div", { class: "tile-head" },
      el("h3", { title: c.id }, c.id),
      badge(c.state)),
    el("p", { class: "muted small ellipsis", title: from }, c.type === "directory" || c.secret || c.file ? from : c.type + " cluster"),
    c.now
      ? el("div", { class: "tile-counts" }, el("span", {}, plural(c.now.services, "service")), meter(c.now.served, c.now.endpoints))
      : el("p", { class: "unknown" }, "What it holds is not known" + (c.epoch ? " yet." : ".")),
    c.reason ? el("p", { class: "reason" }, c.reason) : null,
    c.lastError && c.lastError !== c.reason ? el("p", { class: "reason" }, "Last error: " + c.lastError) : null,
    c.removal ? el("p", { class: "reason" }, c.removal.servedPercent + " % served. Endpoints leave from " + clock(c.removal.begins) + ", the last at " + clock(c.removal.ends) + ".") : null,
    c.timedOut && !c.known ? el("p", { class: "reason" }, "Given up: readiness does not wait for it.") : null,
    el("p", { class: "muted small foot" },
      "for ", age(c.since),
      c.lastEvent && c.type !== "directory" ? el("span", {}, " · heard ", age(c.lastEvent), " ago") : null,
      c.epoch > 1 ? " · credential " + c.epoch : null,
      c.atSync ? " · synced in " + seconds(c.atSync.seconds) : null,
      c.known ? el("button", { type: "button", class: "link", "data-focus": "pick", "aria-label": "Show only services in cluster " + c.id, onclick: () => pick(c.id) }, "services") : null));
}

function clock(iso) {
  return new Date(iso).toLocaleTimeString();
}

function seconds(s) {
  return s < 1 ? Math.round(s * 1000) + "\u00a0ms" : s.toFixed(1) + "\u00a0s";
}
