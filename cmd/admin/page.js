// The admin page: views by the part of the address after #, filled from /api/. Values become text nodes only.

const $ = (id) => document.getElementById(id);
const period = 2000; // ms between looks

// -- Elements

// h makes an element. Attributes that begin with "on" are listeners; children are elements or texts.
function h(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (typeof value === "boolean") e[key] = value;
    else e.setAttribute(key, value);
  }
  e.append(...children);
  return e;
}

function svg(name, attributes = {}, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
}

const setText = (e, text) => { if (e.textContent !== text) e.textContent = text; };

// visible writes out characters that would be invisible or turn the text around.
const visible = (s) => s.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g,
  (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

// -- Words for values

function scaled(n, units) {
  let i = 0;
  while (Math.abs(n) >= 999.5 && i < units.length - 1) { n /= 1000; i++; }
  return (Number.isInteger(n) ? String(n) : n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0)) + units[i];
}
const bytes = (n) => scaled(n, [" B", " kB", " MB", " GB", " TB", " PB"]);
const count = (n) => scaled(n, ["", " k", " M", " G", " T"]);
const whole = (n) => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
const seconds = (s) => s === 0 ? "0 s" : s < 1 ? scaled(s * 1e6, [" µs", " ms"]) : scaled(s, [" s"]);
const perSecond = (format) => (n) => n === null || n === undefined ? "–" : format(n) + "/s";
function time(ms) {
  const d = new Date(ms);
  if (isNaN(d)) return ms + " ms";
  const two = (n, w = 2) => String(n).padStart(w, "0");
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}.${two(d.getMilliseconds(), 3)}`;
}
function ago(from, to) {
  const s = Math.max(0, (new Date(to) - new Date(from)) / 1000);
  return s < 120 ? s.toFixed(0) + " s" : s < 7200 ? (s / 60).toFixed(0) + " min" : s < 172800 ? (s / 3600).toFixed(0) + " h" : (s / 86400).toFixed(0) + " days";
}

// indent lays JSON out without touching its numbers and strings; null where the text is not JSON.
function indent(text) {
  try { if (typeof JSON.parse(text) !== "object") return null; } catch { return null; }
  let out = "", depth = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+/g)) {
    const line = () => "\n" + "  ".repeat(Math.min(depth, 40));
    if (token === "}" || token === "]") { depth--; out += /[{\[]$/.test(out) ? token : line() + token; continue; }
    if (/[{\[]$/.test(out)) out += line();
    out += token;
    if (token === "{" || token === "[") depth++;
    if (token === ",") out += line();
    if (token === ":") out += " ";
  }
  return out;
}

// -- Asking the broker

class Refused extends Error {}

async function ask(path, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, v]) => v !== "" && v !== null && v !== undefined));
  const token = sessionStorage.getItem("token");
  const answer = await fetch("api/" + path + (query.size ? "?" + query : ""), {
    headers: token ? { Authorization: "Bearer " + token } : {}, signal: AbortSignal.timeout(20000),
  });
  if (answer.status === 401) { askToken(token !== null); throw new Refused("a token is needed"); }
  const body = await answer.json();
  if (!answer.ok) throw new Refused(body.error);
  return body;
}

function askToken(wrong) {
  if ($("token")) return;
  view = null;
  const input = h("input", { type: "password", id: "token", autocomplete: "current-password", required: true });
  const form = h("form", { onsubmit: (e) => { e.preventDefault(); sessionStorage.setItem("token", input.value); $("main").replaceChildren(); open(); } },
    h("input", { autocomplete: "username", value: "millrace", hidden: true }), // for who keeps passwords
    h("label", {}, "The broker's millrace.admin.token", input), h("button", {}, "Open"));
  $("main").replaceChildren(h("h1", {}, "Token"), ...(wrong ? [h("p", { class: "bad" }, "That token is not the broker's.")] : []), form);
  input.focus();
}

// -- Tables, whose rows stay the same elements so that focus and selection stay, too

// table has columns of {title, number, text(row), link(row), meter(row), sort}. key tells rows apart.
function table(label, columns, key, sorting) {
  const body = h("tbody"), kept = new Map(), none = h("p", { class: "soft" });
  const heads = columns.map((c) => h("th", { scope: "col", ...(c.number ? { class: "number" } : {}) },
    c.sort && sorting ? h("button", { type: "button", onclick: () => sorting.by(c.sort) }, c.title) : c.title));
  const whole = h("table", { "aria-label": label }, h("thead", {}, h("tr", {}, ...heads)), body);
  function make() {
    return h("tr", {}, ...columns.map((c) => h("td", { "data-label": c.title, ...(c.number ? { class: "number" } : {}) },
      c.link ? h("a") : c.meter ? h("meter") : h("span"))));
  }
  function fill(tr, row) {
    columns.forEach((c, i) => {
      const e = tr.children[i].firstChild;
      if (c.meter) {
        const m = c.meter(row);
        e.hidden = m === null;
        if (m !== null) Object.assign(e, { min: 0, max: 1, low: 0.7, high: 0.9, optimum: 0, value: m, title: (m * 100).toFixed(1) + " %" });
        return;
      }
      setText(e, c.text(row));
      if (c.link) e.setAttribute("href", c.link(row));
    });
  }
  return {
    element: h("div", {}, whole, none),
    update(rows, empty = "None.") {
      const seen = new Set();
      let at = body.firstChild;
      for (const row of rows) {
        const k = key(row);
        seen.add(k);
        let tr = kept.get(k);
        if (!tr) kept.set(k, tr = make());
        fill(tr, row);
        if (tr === at) at = at.nextSibling; else body.insertBefore(tr, at);
      }
      for (const [k, tr] of kept) if (!seen.has(k)) { tr.remove(); kept.delete(k); }
      whole.hidden = rows.length === 0;
      setText(none, rows.length === 0 ? empty : "");
      if (sorting) columns.forEach((c, i) => c.sort === sorting.now() ? heads[i].setAttribute("aria-sort", c.ascending ? "ascending" : "descending") : heads[i].removeAttribute("aria-sort"));
    },
  };
}

// -- Charts

const chartWidth = 360, chartHeight = 130, chartLeft = 58, chartBottom = 18;

function niceMax(max) {
  if (!(max > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(max));
  return [1, 2, 2.5, 5, 10].map((f) => f * power).find((m) => m >= max * 0.999);
}

// chart shows one or two columns of the history; format writes a value.
function chart(title, format, lines) {
  const paths = lines.map((_, i) => svg("path", { class: "ab"[i] }));
  const labels = [0, 1, 2].map((i) => svg("text", { x: chartLeft - 6, y: 12 + (chartHeight - chartBottom - 12) * i / 2, "text-anchor": "end" }));
  const grid = [0, 1, 2].map((i) => { const y = 8 + (chartHeight - chartBottom - 12) * i / 2; return svg("line", { class: "line", x1: chartLeft, x2: chartWidth, y1: y, y2: y }); });
  const times = [svg("text", { x: chartLeft, y: chartHeight - 3 }), svg("text", { x: chartWidth, y: chartHeight - 3, "text-anchor": "end" })];
  const cursor = svg("line", { class: "cursor", y1: 8, y2: chartHeight - chartBottom, visibility: "hidden" });
  const picture = svg("svg", { viewBox: `0 0 ${chartWidth} ${chartHeight}`, role: "img" }, ...grid, ...labels, ...times, ...paths, cursor);
  const values = lines.map((_, i) => h("span", { class: "ab"[i] }));
  let points = [], from = 0, to = 1, pointed = null;
  const x = (t) => chartLeft + (chartWidth - chartLeft) * (t - from) / (to - from);
  const show = (p) => {
    lines.forEach((l, i) => setText(values[i], (l.name ? l.name + " " : "") + (!p || p[l.column] < 0 ? "–" : format(p[l.column]))));
    picture.setAttribute("aria-label", `${title}: ${values.map((v) => v.textContent).join(", ")}`);
  };
  const point = () => {
    const p = pointed === null ? points.at(-1) : points.reduce((a, b) => Math.abs(b.time - pointed) < Math.abs(a.time - pointed) ? b : a, points[0]);
    show(p);
    cursor.setAttribute("visibility", pointed !== null && p ? "visible" : "hidden");
    if (p) { cursor.setAttribute("x1", x(p.time)); cursor.setAttribute("x2", x(p.time)); }
  };
  picture.addEventListener("pointermove", (e) => {
    const box = picture.getBoundingClientRect();
    pointed = from + ((e.clientX - box.left) / box.width * chartWidth - chartLeft) / (chartWidth - chartLeft) * (to - from);
    point();
  });
  picture.addEventListener("pointerleave", () => { pointed = null; point(); });
  return {
    element: h("figure", {}, h("figcaption", {}, h("b", {}, title), ...values), picture),
    update(all, now) {
      points = all;
      to = now; from = Math.min(all.length ? all[0].time : now - 60000, now - 60000);
      const top = niceMax(Math.max(0, ...all.flatMap((p) => lines.map((l) => p[l.column]))));
      labels.forEach((e, i) => setText(e, format(top * (2 - i) / 2)));
      setText(times[0], ago(from, to) + " ago");
      setText(times[1], "now");
      const high = chartHeight - chartBottom - 12;
      lines.forEach((l, i) => {
        let d = "", pen = false;
        for (const p of all) {
          if (p[l.column] < 0) { pen = false; continue; }
          d += (pen ? "L" : "M") + x(p.time).toFixed(1) + " " + (8 + high - high * p[l.column] / top).toFixed(1);
          pen = true;
        }
        paths[i].setAttribute("d", d);
      });
      point();
    },
  };
}

// past keeps the history's points: each look brings the newest only.
const past = {
  points: [],
  async load() {
    const answer = await ask("history", { after: this.points.length ? this.points.at(-1).time : 0 });
    for (const row of answer.rows) this.points.push(Object.fromEntries(answer.columns.map((c, i) => [c, row[i]])));
    this.points.splice(0, this.points.length - 600);
    return this.points;
  },
};

// -- Views: each returns its elements and what brings them up to date

function go(path, parameters) {
  const query = new URLSearchParams(Object.entries(parameters ?? {}).filter(([, v]) => v !== "" && v !== undefined && v !== null));
  return "#/" + path + (query.size ? "?" + query : "");
}
const here = (name, parameters) => history.replaceState(null, "", go(name, parameters));

const topicColumns = [
  { title: "Topic", text: (t) => visible(t.name), link: (t) => go("topic", { name: t.name }), sort: "name", ascending: true },
  { title: "Partitions", number: true, text: (t) => whole(t.partitions) },
  { title: "Records", number: true, text: (t) => whole(t.records), sort: "records" },
  { title: "Size", number: true, text: (t) => bytes(t.bytes), sort: "size" },
  { title: "Records in", number: true, text: (t) => perSecond(count)(t.records_in_per_second), sort: "rate" },
  { title: "Growth", number: true, text: (t) => perSecond(bytes)(t.bytes_growth_per_second) },
];
const groupColumns = [
  { title: "Group", text: (g) => visible(g.id) || "(no name)", link: (g) => go("group", { id: g.id }), sort: "id", ascending: true },
  { title: "State", text: (g) => g.state },
  { title: "Type", text: (g) => g.type },
  { title: "Members", number: true, text: (g) => whole(g.members) },
  { title: "Lag", number: true, text: (g) => whole(g.lag), sort: "lag" },
  { title: "Lag grows", number: true, text: (g) => perSecond(count)(g.lag_growth_per_second) },
  { title: "Committed", number: true, text: (g) => perSecond(count)(g.records_committed_per_second), sort: "rate" },
];
const clientColumns = [
  { title: "Client id", text: (c) => visible(c.id) || "(none)", sort: "id", ascending: true },
  { title: "Address", text: (c) => c.address },
  { title: "Connections", number: true, text: (c) => whole(c.connections) },
  { title: "Requests", number: true, text: (c) => perSecond(count)(c.requests_per_second), sort: "requests" },
  { title: "Produces", number: true, text: (c) => perSecond(bytes)(c.produced_bytes_per_second), sort: "rate" },
  { title: "Fetches", number: true, text: (c) => perSecond(bytes)(c.fetched_bytes_per_second) },
];

function overviewView() {
  const facts = h("dl", { class: "tiles" }), health = h("div"), used = (d) => d.total_bytes > 0 ? 1 - d.free_bytes / d.total_bytes : null;
  const charts = [
    chart("Bytes", perSecond(bytes), [{ column: "produced_bytes_per_second", name: "in" }, { column: "fetched_bytes_per_second", name: "out" }]),
    chart("Records", perSecond(count), [{ column: "records_in_per_second", name: "in" }, { column: "records_out_per_second", name: "out" }]),
    chart("Produce latency", seconds, [{ column: "produce_p50_seconds", name: "p50" }, { column: "produce_p99_seconds", name: "p99" }]),
    chart("CPUs busy", (n) => n.toFixed(2), [{ column: "cpus" }]),
    chart("Memory", bytes, [{ column: "memory_bytes", name: "own" }, { column: "mapped_bytes", name: "mapped" }]),
    chart("Requests", perSecond(count), [{ column: "requests_per_second" }]),
  ];
  const disks = table("Disks", [
    { title: "Directory", text: (d) => d.directory }, { title: "Backend", text: (d) => d.backend + (d.reason ? ", " + d.reason : "") },
    { title: "Free", number: true, text: (d) => d.total_bytes < 0 ? "?" : bytes(d.free_bytes) + " of " + bytes(d.total_bytes) }, { title: "Used", meter: used },
    { title: "State", text: (d) => d.error || (d.cordoned ? "cordoned" : "well") },
  ], (d) => d.directory);
  const busiest = table("Busiest topics", topicColumns, (t) => t.id);
  const bounded = table("What has a limit", [
    { title: "What", text: (g) => g.name }, { title: "Now", number: true, text: (g) => g.bytes ? bytes(g.value) : whole(g.value) },
    { title: "Limit", number: true, text: (g) => g.limit === 0 ? "–" : g.bytes ? bytes(g.limit) : whole(g.limit) }, { title: "Used", meter: (g) => g.limit > 0 ? g.value / g.limit : null },
  ], (g) => g.name);
  const brokers = table("Brokers", [
    { title: "Node", text: (b) => String(b.node_id) }, { title: "Rack", text: (b) => b.rack || "–" }, { title: "Addresses", text: (b) => b.endpoints.join(", ") },
    { title: "Registered", text: (b) => time(b.registered) },
  ], (b) => b.node_id);
  const tile = (name) => { const dd = h("dd"); facts.append(h("div", {}, h("dt", {}, name), dd)); return dd; };
  const tiles = ["Topics", "Partitions", "Groups", "Connections", "Runs for"].map(tile), which = h("p", { class: "soft" });
  return {
    title: "Overview",
    elements: [which, health, facts, h("h2", {}, "Now"), h("div", { class: "grid" }, ...charts.map((c) => c.element)), h("h2", {}, "Busiest topics"), busiest.element,
      h("h2", {}, "Disks"), disks.element, h("h2", {}, "Limits"), bounded.element, h("h2", {}, "Brokers"), brokers.element],
    async update() {
      const [o, points, topics] = await Promise.all([ask("overview"), past.load(), ask("topics", { sort: "rate", limit: 5 })]);
      [whole(o.topics), whole(o.partitions), whole(o.groups), whole(o.connections), ago(o.started, o.now)].forEach((v, i) => setText(tiles[i], v));
      setText(which, `Cluster ${o.cluster_id}, version ${o.version}`);
      setText($("where"), "node " + o.node_id);
      const faults = [o.health, o.damaged_shards > 0 ? whole(o.damaged_shards) + " partitions are damaged and not served" : ""].filter(Boolean);
      health.replaceChildren(...faults.map((f) => h("p", { class: "bad" }, f)));
      charts.forEach((c) => c.update(points, new Date(o.now).getTime()));
      disks.update(o.disks); bounded.update(o.bounded); brokers.update(o.brokers);
      busiest.update(topics.rows, "There are no topics yet.");
    },
  };
}

// listView is a list with a filter and an order.
function listView(name, title, columns, key, orders) {
  return (given) => {
    let sort = orders.includes(given.get("sort")) ? given.get("sort") : orders[0], wait;
    const filter = h("input", { type: "search", value: given.get("filter") ?? "", oninput: () => { clearTimeout(wait); wait = setTimeout(change, 250); } });
    const change = () => { here(name, { sort: sort === orders[0] ? "" : sort, filter: filter.value }); refresh(); };
    const rows = table(title, columns, key, { by: (s) => { sort = s; change(); }, now: () => sort });
    const left = h("p", { class: "soft" });
    return {
      title,
      elements: [h("form", { onsubmit: (e) => e.preventDefault() }, h("label", {}, "Filter", filter)), left, rows.element],
      async update() {
        const l = await ask(name, { sort, filter: filter.value, limit: 200 });
        setText(left, `${whole(l.rows.length)} of ${whole(l.matches)}` + (l.matches < l.total ? ` that match, ${whole(l.total)} in all` : ""));
        rows.update(l.rows);
      },
    };
  };
}

function topicView(given) {
  const name = given.get("name") ?? "", page = 200;
  let from = 0;
  const sum = table("Sums", topicColumns.slice(1), () => 1), configs = table("Configs", [{ title: "Config", text: (c) => c[0] }, { title: "Value", text: (c) => visible(c[1]) }], (c) => c[0]);
  const rows = table("Partitions", [
    { title: "Partition", text: (p) => String(p.partition), link: (p) => go("records", { topic: name, partition: p.partition }) },
    { title: "State", text: (p) => p.damaged ? "damaged" : p.here ? "served" : "not here" }, { title: "Leader", text: (p) => p.leader + ", epoch " + p.leader_epoch },
    { title: "Replicas", text: (p) => p.replicas.join(", ") }, { title: "In sync", text: (p) => p.isr.join(", ") },
    { title: "Start", number: true, text: (p) => whole(p.log_start_offset) }, { title: "End", number: true, text: (p) => whole(p.high_watermark) }, { title: "Size", number: true, text: (p) => bytes(p.bytes) },
  ], (p) => p.partition);
  const turn = (by) => () => { from += by; refresh(); };
  const back = h("button", { type: "button", onclick: turn(-page) }, "Before"), on = h("button", { type: "button", onclick: turn(page) }, "Further"), created = h("p", { class: "soft" });
  const pages = h("form", { onsubmit: (e) => e.preventDefault() }, back, on);
  return {
    title: "Topic " + visible(name),
    elements: [created, h("p", {}, h("a", { href: go("records", { topic: name }) }, "Records")), sum.element, h("h2", {}, "Partitions"), pages, rows.element, h("h2", {}, "Its own configs"), configs.element],
    async update() {
      const t = await ask("topic", { name, from, limit: page });
      setText(created, `Created ${time(t.created)}, id ${t.id}`);
      sum.update([t]); rows.update(t.rows); configs.update(t.configs, "None: the broker's defaults hold.");
      pages.hidden = t.partitions <= page; back.disabled = from === 0; on.disabled = from + page >= t.partitions;
    },
  };
}

function groupView(given) {
  const id = given.get("id") ?? "", sum = table("Sums", groupColumns.slice(1), () => 1);
  const members = table("Members", [
    { title: "Member", text: (m) => visible(m.id) }, { title: "Instance", text: (m) => visible(m.instance_id) || "–" }, { title: "Client", text: (m) => visible(m.client_id) || "–" }, { title: "Host", text: (m) => m.host },
    { title: "Partitions", text: (m) => m.assigned.map((a) => visible(a.topic) + " " + a.partitions.join(",")).join("; ") || "none" },
  ], (m) => m.id);
  const offsets = table("Offsets", [
    { title: "Topic", text: (o) => visible(o.topic), link: (o) => go("topic", { name: o.topic }) }, { title: "Partition", text: (o) => String(o.partition), link: (o) => go("records", { topic: o.topic, partition: o.partition, offset: o.offset }) },
    { title: "Committed", number: true, text: (o) => whole(o.offset) }, { title: "Lag", number: true, text: (o) => whole(o.lag) },
  ], (o) => o.topic + " " + o.partition);
  const left = h("p", { class: "soft" }), away = h("p", { class: "soft" });
  return {
    title: "Group " + visible(id),
    elements: [sum.element, h("h2", {}, "Members"), members.element, away, h("h2", {}, "Committed offsets"), offsets.element, left],
    async update() {
      const g = await ask("group", { id });
      sum.update([g]); members.update(g.member_list); offsets.update(g.offset_list);
      setText(away, g.members_left ? whole(g.members_left) + " more are not shown." : "");
      setText(left, g.offsets_left ? whole(g.offsets_left) + " more are not shown." : "");
    },
  };
}

// -- Records

// shownContent is one line for a key or a value.
function shownContent(c, cls) {
  if (c.bytes < 0) return h("span", { class: "null" }, "null");
  const text = c.text !== undefined ? visible(c.text.slice(0, 300)) : "base64 " + (c.base64 ?? "").slice(0, 100);
  return h("span", cls ? { class: cls } : {}, c.bytes === 0 ? h("span", { class: "null" }, "empty") : text);
}

// wholeContent is all of a key or a value that is there, JSON laid out.
function wholeContent(name, c) {
  if (c.bytes < 0) return [h("h3", {}, name + ": null")];
  const kind = c.text === undefined ? "base64, " : "", size = whole(c.bytes) + (c.bytes === 1 ? " byte" : " bytes") + (c.cut ? ", cut" : "");
  const json = c.text !== undefined && !c.cut ? indent(c.text) : null;
  return [h("h3", {}, `${name} (${json !== null ? "JSON, " : kind}${size})`), h("pre", { tabindex: "0" }, c.text !== undefined ? visible(json ?? c.text) : c.base64 ?? "")];
}

function recordElement(topic, partition, r) {
  const body = h("div");
  function fill(r) {
    const cut = r.key.cut || r.value.cut;
    body.replaceChildren(...wholeContent("Key", r.key), ...wholeContent("Value", r.value), ...r.headers.flatMap((e) => wholeContent("Header " + (visible(e.key.text ?? "") || "base64 " + (e.key.base64 ?? "")), e.value)),
      h("p", { class: "soft" }, `Leader epoch ${r.leader_epoch}` + (r.producer_id >= 0 ? `, producer ${r.producer_id}` : "") + (r.control ? ", control record" : "") + (r.headers_left ? `, ${r.headers_left} more headers` : "")),
      ...(cut ? [h("button", { type: "button", onclick: more }, "All of it")] : []));
  }
  async function more() {
    try { fill((await ask("records", { topic, partition, offset: r.offset, whole: true })).records[0]); } catch (e) { say(e.message); }
  }
  return h("details", { ontoggle: (e) => { if (e.target.open && !body.firstChild) fill(r); } },
    h("summary", {}, h("span", {}, whole(r.offset)), h("span", { class: "soft" }, time(r.timestamp)), shownContent(r.key), shownContent(r.value)), body);
}

function recordsView(given) {
  const topic = given.get("topic") ?? "", many = 50, start = (n) => given.get(n) ?? "";
  const field = (label, e) => h("label", {}, label, e);
  const partition = h("input", { type: "number", min: "0", value: start("partition") || "0", id: "partition" });
  const from = h("select", { id: "from" }, ...["newest", "oldest", "offset", "time"].map((n) => h("option", { value: n }, n)));
  const at = h("input", { id: "at" }), search = h("input", { type: "search", value: start("search"), id: "search" }), follow = h("input", { type: "checkbox", id: "follow" });
  const list = h("div", { class: "records" }), told = h("p", { class: "soft", role: "status" });
  const newer = h("button", { type: "button", onclick: () => load({ offset: next }) }, "Newer"), older = h("button", { type: "button", onclick: () => load({ offset: Math.max(first - many, low) }) }, "Older");
  let next = 0, first = 0, low = 0;
  from.value = given.has("offset") ? "offset" : given.has("time") ? "time" : "newest";
  function kind() {
    at.hidden = from.value !== "offset" && from.value !== "time";
    at.type = from.value === "time" ? "datetime-local" : "number";
    if (from.value === "time") at.step = "0.001";
  }
  kind();
  at.value = from.value === "offset" ? start("offset") : from.value === "time" ? time(Number(start("time"))).replace(" ", "T") : "";
  from.addEventListener("change", () => { kind(); if (!at.hidden) at.focus(); });
  const place = () => ({ newest: { offset: search.value ? "" : -many }, oldest: {}, offset: { offset: at.value }, time: { time: at.value && new Date(at.value).getTime() } })[from.value];
  async function load(where) {
    told.textContent = "Looking…";
    try {
      const a = await ask("records", { topic, partition: partition.value, search: search.value, limit: many, ...where });
      here("records", { topic, partition: partition.value, search: search.value, ...(where.offset < 0 ? {} : where) });
      next = a.next; first = a.records.length && search.value ? a.records[0].offset : a.from; low = a.log_start_offset;
      list.replaceChildren(...a.records.map((r) => recordElement(topic, a.partition, r)));
      setText(told, `${whole(a.records.length)} records from offset ${whole(a.from)} on` + (search.value ? `, ${whole(a.scanned)} looked at` : "") +
        (a.end ? ", up to the end" : search.value && a.records.length < many ? "; the search stopped here: Newer goes on" : "") + `. The log has offsets ${whole(a.log_start_offset)} to ${whole(a.high_watermark)}.`);
      newer.disabled = a.end; older.disabled = a.from <= a.log_start_offset;
      say("");
    } catch (e) {
      list.replaceChildren(); setText(told, ""); say(e.message);
    }
  }
  return {
    title: "Records of " + visible(topic),
    elements: [h("p", {}, h("a", { href: go("topic", { name: topic }) }, "Topic")),
      h("form", { onsubmit: (e) => { e.preventDefault(); load(place()); } }, field("Partition", partition), field("From", from), field("", at), field("Search in keys, values, headers", search),
        h("button", {}, "Show"), older, newer, h("label", { class: "inline" }, follow, "Follow")), told, list],
    start: () => load(place()),
    async update() {
      if (!follow.checked || list.querySelector("details[open]")) return;
      from.value = "newest"; kind();
      await load({ offset: -many, search: "" });
    },
  };
}

// -- What is shown when

const views = {
  "": overviewView,
  topics: listView("topics", "Topics", topicColumns, (t) => t.id, ["name", "rate", "size", "records"]),
  groups: listView("groups", "Groups", groupColumns, (g) => g.id, ["id", "lag", "rate"]),
  clients: listView("clients", "Clients", clientColumns, (c) => c.id, ["id", "rate", "requests"]),
  topic: topicView, group: groupView, records: recordsView,
};
let view = null, paused = false, asking = false;

const say = (text) => setText($("state"), text);

function open() {
  if (location.hash === "#main") { $("main").focus(); return; }
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const make = Object.hasOwn(views, path) ? views[path] : null;
  const shown = make ? make(new URLSearchParams(query)) : { title: "There is no such view", elements: [], update() {} };
  view = shown;
  document.title = shown.title + " – millrace";
  for (const a of document.querySelectorAll("nav a")) {
    if (a.getAttribute("href") === "#/" + path || path && a.getAttribute("href") === "#/" + path + "s" || path === "records" && a.getAttribute("href") === "#/topics") a.setAttribute("aria-current", "page"); else a.removeAttribute("aria-current");
  }
  $("main").replaceChildren(h("h1", {}, shown.title), ...shown.elements);
  say("");
  shown.start?.();
  refresh();
}

async function refresh() {
  const shown = view;
  if (!shown || asking) return;
  asking = true;
  try {
    await shown.update();
    if (view === shown && view.failed) { view.failed = false; say(""); }
  } catch (e) {
    if (view === shown) { shown.failed = true; say(e instanceof Refused ? e.message : "The broker cannot be reached: " + e.message); }
  } finally {
    asking = false;
    if (view !== shown) refresh();
  }
}

function pause() {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", paused);
}

$("pause").addEventListener("click", pause);
document.addEventListener("keydown", (e) => {
  if (e.key === "p" && !e.ctrlKey && !e.metaKey && !e.altKey && !e.target.closest("input, select, textarea")) pause();
});
window.addEventListener("hashchange", open);
setInterval(() => { if (!paused && !document.hidden) refresh(); }, period);
open();
