import { age, badge, byId, el, plural, refreshAges } from "./dom.js";
import { showClusters } from "./clusters.js";
import { getJSON, showServices } from "./services.js";
import { showProxies } from "./proxies.js";

const step = 100; // services shown at first, and more at a time
let limit = step;
let cluster = "";
let last = {}; // the newest event

// A loader asks again after the answer if it was called meanwhile, so that a
// burst of events costs two requests and an old answer never overwrites a newer.
function loader(task) {
  let running = false;
  let again = false;
  return async function run() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    do {
      again = false;
      try {
        await task();
      } catch (e) {
        live("bad", "cannot read: " + e.message);
      }
    } while (again);
    running = false;
  };
}

const loadClusters = loader(async () => showClusters((await getJSON("/api/v1/clusters")).items, pickCluster));
const loadProxies = loader(async () => showProxies(await getJSON("/api/v1/proxies?limit=200")));
const loadServices = loader(async () => {
  const query = new URLSearchParams({ limit: String(limit) });
  const text = byId("search").value.trim();
  if (text) query.set("q", text);
  if (cluster) query.set("cluster", cluster);
  const list = await getJSON("/api/v1/services?" + query);
  byId("services-count").textContent = list.total.toLocaleString("en");
  byId("services-none").hidden = list.total > 0;
  byId("services-more").hidden = !list.continue || limit >= 5000;
  showServices(list);
});

function pickCluster(id) {
  cluster = id;
  limit = step;
  byId("filter").replaceChildren(...(id ? [el("button", { type: "button", class: "chip good", "aria-label": "Show services of all clusters again", onclick: () => pickCluster("") }, "in " + id + "  ✕")] : []));
  if (id) byId("services").scrollIntoView({ behavior: "smooth" });
  loadServices();
}

function live(kind, text) {
  const e = byId("live");
  if (e.textContent !== text) e.textContent = text;
  e.className = "live " + kind;
}

function showReady(event) {
  const banner = byId("ready");
  const says = JSON.stringify([event.ready, event.waiting, event.clusters]);
  if (banner.says === says) return;
  banner.says = says;
  const waiting = (event.waiting || []).map((w) => el("li", {}, w.cluster ? el("b", {}, w.cluster + ": ") : null, w.what, " (", age(w.since), ")"));
  const troubled = ["suspect", "stale", "draining", "invalid", "denied", "conflict"].filter((s) => event.clusters[s]);
  banner.className = "banner " + (!event.ready ? "bad" : troubled.length || waiting.length ? "warn" : "good");
  banner.replaceChildren(
    el("b", {}, event.ready ? "Ready" : "Not ready"),
    el("span", {}, event.ready ? " – proxies are answered." : " – proxies wait for the answer until the registry is complete."),
    ...troubled.map((s) => el("span", { class: "trouble" }, badge(s), " " + plural(event.clusters[s], "cluster"))),
    waiting.length ? el("ul", {}, ...waiting) : "");
}

function showTotals(event) {
  const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);
  const n = (x) => x.toLocaleString("en");
  const clusters = sum(event.clusters);
  const proxies = sum(event.proxies);
  const items = [
    ["Clusters", n(clusters), clusters ? n(event.clusters.synced || 0) + " synced" : ""],
    ["Services", n(event.services), ""],
    ["Endpoints", n(event.served), event.served === event.endpoints ? "all served" : "served of " + n(event.endpoints)],
    ["Proxies", n(proxies), proxies ? n(event.proxies.SYNCED || 0) + " synced" : ""],
    ["Revision", n(event.revision), ""],
  ];
  byId("totals").replaceChildren(...items.map(([name, value, about]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value, about ? el("span", { class: "muted small" }, about) : null))));
}

function show(event) {
  showReady(event);
  showTotals(event);
  if (event.clustersMark !== last.clustersMark || event.revision !== last.revision) loadClusters();
  if (event.proxiesMark !== last.proxiesMark) loadProxies();
  if (event.revision !== last.revision) loadServices();
  last = event;
}

function listen() {
  const source = new EventSource("/api/v1/events");
  source.addEventListener("open", () => {
    live("good", "live");
    last = {}; // what happened meanwhile is not known: ask for everything
  });
  source.addEventListener("change", (e) => show(JSON.parse(e.data)));
  source.addEventListener("error", () => {
    live("bad", "disconnected, trying again");
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  });
}

let typing;
byId("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    limit = step;
    loadServices();
  }, 150);
});
byId("services-more").addEventListener("click", () => {
  limit += step;
  loadServices();
});
setInterval(refreshAges, 1000);
listen();
