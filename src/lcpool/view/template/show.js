// What is in the file: an index of all graphs, and the graphs in chunks, read when one is shown.
const element = (id) => document.getElementById(id);
const chunks = [...document.querySelectorAll("script.chunk")];
const read = new Map(); // chunk → its graphs, or a promise of them
const REMEMBERED = 30; // chunks
let about, rows, order = [], chosen = -1, level = 0, shown = null;

async function unpack(source) {
  const bytes = Uint8Array.from(atob(source.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

async function graphNumber(number) {
  let chunk = about.first.length - 1;
  while (about.first[chunk] > number) chunk--;
  if (!read.has(chunk)) {
    if (read.size >= REMEMBERED) read.delete(read.keys().next().value);
    read.set(chunk, unpack(chunks[chunk]));
  }
  return (await read.get(chunk))[number - about.first[chunk]];
}

function made(name, attributes = {}, ...children) {
  const of = attributes.svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key !== "svg" && value !== undefined) of.setAttribute(key, value);
  }
  of.append(...children);
  return of;
}

const named = (text) => made("bdi", {}, text); // A name that is written from right to left turns nothing else round.
const drawn = (name, attributes = {}, ...children) => made(name, { ...attributes, svg: true }, ...children);
const percent = (share) => `${(100 * share).toFixed(share > 0.999 || share < 0.001 ? 1 : 0)} %`;
const counted = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

// The list: which graphs, in which order. Only the rows that are seen are elements.
const ROW = 42;
const PARTS = { train: "training", val: "validation", test: "test" };
const sorts = {
  number: ["number", (g) => g, 1],
  nodes: ["nodes", (g) => rows.nodes[g], -1],
  edges: ["edges", (g) => rows.edges[g], -1],
  error: ["error", (g) => rows.error[g], -1],
  confidence: ["confidence", (g) => rows.confidence[g], 1],
};
let direction = 1;

function filled() {
  for (const [key, [title, value]] of Object.entries(sorts)) {
    if (rows.nodes?.some((_, g) => value(g) !== null)) element("sort").append(new Option(title, key));
  }
  const groups = [["all", () => true]];
  if (rows.wrong?.some((wrong) => wrong !== null)) {
    groups.push(["wrong", (g) => rows.wrong[g] === true], ["right", (g) => rows.wrong[g] === false]);
  }
  for (const part of new Set(about.parts)) if (part) groups.push([`${PARTS[part]} graphs`, (g) => about.parts[g] === part]);
  if (about.kind === "classes" && rows.truth?.some((truth) => truth !== null)) {
    for (const name of about.names.slice(0, 100)) groups.push([`truth: ${name}`, (g) => rows.truth[g] === name]);
  }
  for (const [title] of groups) element("only").append(new Option(title));
  return groups.map(([, wanted]) => wanted);
}

function matches(g, words) {
  if (words === "") return true;
  if (/^\d+$/.test(words)) return String(g).startsWith(words);
  return [rows.truth[g], rows.predicted[g]].some((label) => (label ?? "").toLowerCase().includes(words));
}

function arrange() {
  const words = element("search").value.trim().toLowerCase(), wanted = groups[element("only").selectedIndex];
  const value = sorts[element("sort").value]?.[1] ?? ((g) => g);
  order = [];
  for (let g = 0; g < about.parts.length; g++) if (wanted(g) && matches(g, words)) order.push(g);
  order.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null) || a - b;
    return direction * (x - y) || a - b;
  });
  const all = about.parts.length;
  element("count").textContent = order.length === all ? counted(all, "graph") : `${order.length} of ${counted(all, "graph")}`;
  element("direction").textContent = direction > 0 ? "↑ rising" : "↓ falling";
  element("rows").style.height = `${order.length * ROW}px`;
  list();
}

function list() {
  const box = element("list"), first = Math.max(0, Math.floor(box.scrollTop / ROW) - 5);
  const last = Math.min(order.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + 5);
  const found = [];
  for (let at = first; at < last; at++) {
    const g = order[at], truth = rows.truth[g], wrong = rows.wrong[g];
    const said = wrong ? [named(rows.predicted[g]), ", not ", named(truth)] : [named(rows.predicted[g])];
    const key = element("sort").value, value = sorts[key]?.[1](g);
    const detail = { error: value === null ? "–" : `error ${value}`, confidence: value === null ? "–" : percent(value) };
    const row = made("a", { href: `#graph=${g}`, role: "option", id: `row-${g}`, tabindex: -1, "aria-selected": g === chosen },
      made("span", {}, String(g)),
      made("span", { class: wrong === null ? "" : wrong ? "wrong" : "right" }, ...said),
      made("small", {}, detail[key] ?? (key === "edges" ? counted(rows.edges[g], "edge") : counted(rows.nodes[g], "node"))));
    row.style.top = `${at * ROW}px`;
    row.style.height = `${ROW}px`;
    found.push(row);
  }
  element("rows").replaceChildren(...found);
  box.setAttribute("aria-activedescendant", `row-${chosen}`);
}

function intoView() {
  const at = order.indexOf(chosen), box = element("list");
  if (at < 0) return;
  if (at * ROW < box.scrollTop) box.scrollTop = at * ROW;
  else if ((at + 1) * ROW > box.scrollTop + box.clientHeight) box.scrollTop = (at + 1) * ROW - box.clientHeight;
}

// The address: #graph=17&level=1.
function address() {
  const given = new URLSearchParams(location.hash.slice(1));
  const number = Number(given.get("graph") ?? NaN), step = Number(given.get("level") ?? NaN);
  return [Number.isInteger(number) && number >= 0 && number < about.parts.length ? number : null,
    Number.isInteger(step) && step >= 0 ? step : null];
}

async function choose(number, step = level) {
  const changed = number !== chosen;
  chosen = number;
  const found = await graphNumber(number);
  if (number !== chosen) return; // Another one was chosen meanwhile.
  level = Math.min(step, found.l.length);
  history.replaceState(null, "", `#graph=${number}${level ? `&level=${level}` : ""}`);
  if (changed || shown === null) present(found, number);
  mark();
  intoView();
  list();
}

function move(by) {
  const at = order.indexOf(chosen);
  const next = at < 0 ? 0 : Math.max(0, Math.min(order.length - 1, at + by));
  if (order.length) choose(order[next]);
}

// One graph.
function present(graph, number) {
  element("name").textContent = `Graph ${number}`;
  const truth = rows.truth[number], wrong = rows.wrong[number], part = about.parts[number];
  const sure = about.kind === "classes" && rows.confidence[number] !== null ? ` (${percent(rows.confidence[number])})` : "";
  const error = about.kind === "values" && rows.error[number] !== null ? `, error ${rows.error[number]}` : "";
  element("verdict").replaceChildren(
    made("span", { class: wrong === null ? "" : wrong ? "wrong" : "right" }, "predicted ", named(rows.predicted[number]), sure),
    ...(truth === null ? [] : [", truth ", named(truth)]), `${error}${part ? `, ${PARTS[part]} graph` : ""}`);
  element("probabilities").replaceChildren(...bars(graph.p, truth));
  const where = [layout(graph.n, graph.e)];
  for (const next of graph.l) where.push(placesOf(next, where.at(-1)));
  shown = { graph, where, related: related(graph) };
  const titles = where.map((_, step) => (step ? (graph.l.length > 1 ? `Pooling ${step}` : "Pooled") : "Input"));
  const figures = where.map((_, step) => panel(step, titles[step]));
  element("panels").replaceChildren(...figures);
  element("levels").replaceChildren(...(graph.l.length ? titles : []).map((title, step) => {
    const tab = made("button", { type: "button", role: "tab" }, title);
    tab.addEventListener("click", () => choose(chosen, step));
    return tab;
  }));
  element("legend").replaceChildren(...legend(graph));
}

function bars(probabilities, truth) {
  if (!probabilities) return [];
  const order = probabilities.map((_, c) => c);
  if (order.length > 12) order.sort((a, b) => probabilities[b] - probabilities[a]);
  const longest = most(order.slice(0, 12).map((c) => about.names[c].length)); // of one width: bars can be compared
  element("probabilities").style.setProperty("--name", `min(8rem, ${(0.6 * longest + 0.4).toFixed(1)}rem)`);
  return order.slice(0, 12).map((c) => {
    const name = about.names[c], bar = made("i");
    bar.style.width = `${100 * (probabilities[c] ?? 0)}%`;
    return made("div", { class: name === truth ? "truth" : "" }, made("bdi", { title: name }, name),
      made("span", { class: "bar" }, bar), made("output", {}, probabilities[c] === null ? "–" : percent(probabilities[c])));
  });
}

// Whether some pooled node is made of several nodes.
function cells(of) {
  const inside = (of.c ?? []).filter((cell) => cell >= 0);
  return new Set(inside).size < inside.length;
}

// The nodes of every level that a node comes from or becomes part of. With ASAP a node that is kept may
// belong more to another cluster than to its own.
function related({ l }) {
  const into = l.map((next) => {
    const found = [...(next.c ?? [])];
    next.i?.forEach((v, place) => { found[v] = place; });
    return found;
  });
  const inside = l.map((next, at) => {
    const found = Array.from({ length: next.n }, () => []);
    into[at].forEach((cell, v) => { if (cell >= 0) found[cell].push(v); });
    return found;
  });
  return (step, node) => {
    const found = new Array(l.length + 1).fill(null).map(() => new Set());
    found[step].add(node);
    for (let at = step; at < l.length; at++) for (const v of found[at]) if (into[at][v] >= 0) found[at + 1].add(into[at][v]);
    for (let at = step; at > 0; at--) for (const cell of found[at]) for (const v of inside[at - 1][cell]) found[at - 1].add(v);
    return found;
  };
}

// The share of the largest area of each pooled node: by its score, else by the nodes in it.
function sizes(of) {
  let value = of.h;
  if (!value && cells(of)) {
    value = new Array(of.n).fill(0);
    for (const cell of of.c) if (cell >= 0) value[cell]++;
  }
  if (!value) return new Array(of.n).fill(0.8);
  const low = least(value), span = most(value) - low;
  return value.map((v) => (span > 0 ? 0.4 + (0.6 * (v - low)) / span : 0.8));
}

// The class, the size and the words of each node of a level: by the cluster that it becomes part of
// or, in the end, is.
function looks(step) {
  const { graph } = shown, own = graph.l[step - 1], next = graph.l[step], of = next ?? own;
  const count = own?.n ?? graph.n, colours = of && cells(of) ? cellColours(of, 7).map((c) => `c${c}`) : null;
  const colour = (cell) => (cell < 0 ? "none" : colours?.[cell] ?? "c0"), large = of ? sizes(of) : [];
  const kept = new Map(next?.i?.map((v, place) => [v, place]));
  return Array.from({ length: count }, (_, v) => {
    const place = kept.get(v) ?? -1, cell = next?.c?.[v];
    const words = [own?.i ? `node ${v}, was ${own.i[v]}` : `node ${v}`];
    if (own?.h) words.push(`score ${own.h[v]}`);
    if (!next) return { class: own ? colour(v) : "c0", size: own ? large[v] : 0.6, tip: words.join(", ") };
    if (next.i) words.push(place >= 0 ? `kept as ${place}${next.h ? `, score ${next.h[place]}` : ""}` : cell >= 0 ? `in the cluster of ${next.i[cell]}` : "dropped");
    else if (cell >= 0) words.push(`in cluster ${cell}`);
    const pale = next.i && place < 0 ? " pale" : "";
    const look = cell === undefined && next.i ? (place < 0 ? "none" : "c0") : colour(place >= 0 ? place : cell ?? 0);
    return { class: look + pale, size: next.i ? (place < 0 ? 0.35 : large[place]) : 0.6, tip: words.join(", ") };
  });
}

function panel(step, title) {
  const { graph, where } = shown, own = graph.l[step - 1], places = where[step];
  const xs = where[0].map((p) => p[0]), ys = where[0].map((p) => p[1]);
  const box = where[0].length ? [least(xs), least(ys), most(xs) - least(xs), most(ys) - least(ys)] : [0, 0, 0, 0];
  const room = 0.7 + 0.03 * Math.max(box[2], box[3]), wide = Math.max(box[2], 1) + 2 * room, high = Math.max(box[3], 1) + 2 * room;
  const view = [box[0] + box[2] / 2 - wide / 2, box[1] + box[3] / 2 - high / 2, wide, high];
  const radius = (at) => Math.min(0.17 * Math.sqrt((wide * high) / Math.max(at.length, 1)), 0.035 * Math.max(wide, high),
    Math.max(0.5 * spacing(at), 0.006 * Math.max(wide, high)));
  const parts = [], largest = radius(places);
  if (own) parts.push(...membersOf(own, where[step - 1], places, radius(where[step - 1])));
  parts.push(...edgesOf(own ?? { e: graph.e, x: [], w: null }, places));
  looks(step).forEach((look, v) => {
    const [x, y] = places[v];
    parts.push(drawn("circle", { cx: x.toFixed(3), cy: y.toFixed(3), r: (largest * Math.sqrt(look.size)).toFixed(3),
      "stroke-width": (0.12 * largest).toFixed(3), class: look.class, "data-tip": look.tip, "data-step": step, "data-node": v }));
  });
  const pairs = (own?.e ?? graph.e).length / 2, total = own?.of ?? pairs, added = own?.x?.length ?? 0;
  const nodes = own ? `${own.n} of ${counted(step > 1 ? graph.l[step - 2].n : graph.n, "node")}` : counted(graph.n, "node");
  const words = `${own && !own.i ? counted(own.n, "cluster") : nodes}, ${counted(total, "edge")}${added ? `, ${added} new` : ""}`;
  const cut = total > pairs ? `; the ${pairs} heaviest are drawn` : "";
  const picture = drawn("svg", { viewBox: view.map((v) => v.toFixed(3)).join(" "), role: "img", "aria-label": `${title}: ${words}` }, ...parts);
  const figure = made("figure", { "data-step": step }, made("figcaption", {}, title, made("small", {}, words + cut)), picture);
  figure.addEventListener("click", () => choose(chosen, step));
  return figure;
}

function line([ax, ay], [bx, by], bend = 0) {
  const way = bend ? `Q${((ax + bx) / 2 - bend * (by - ay)).toFixed(3)} ${((ay + by) / 2 + bend * (bx - ax)).toFixed(3)} ` : "L";
  return `M${ax.toFixed(3)} ${ay.toFixed(3)}${way}${bx.toFixed(3)} ${by.toFixed(3)}`;
}

// One path for all edges that look the same: weights are drawn in six widths.
function edgesOf(of, places) {
  const added = new Set(of.x ?? []), over = runsOver(places, of.e, of.x ?? []), paths = new Map();
  const low = of.w ? least(of.w) : 0, span = of.w ? most(of.w) - low : 0;
  for (let at = 0; at < of.e.length / 2; at++) {
    const bin = of.w ? (span > 0 ? Math.round((5 * (of.w[at] - low)) / span) : 2) : -1;
    const key = `${added.has(at) ? "new" : "edge"} ${bin}`;
    paths.set(key, (paths.get(key) ?? "") + line(places[of.e[2 * at]], places[of.e[2 * at + 1]], over.has(at) ? 0.4 : 0));
  }
  return [...paths].sort().reverse().map(([key, d]) => {
    const [kind, bin] = key.split(" ");
    const thin = Math.max(0.4, Math.min(1.3, 40 / Math.sqrt(of.e.length / 2))).toFixed(2); // where there are many
    const weight = Number(bin) < 0 ? { "stroke-width": thin } : { "stroke-width": 0.4 + 0.7 * Number(bin), "stroke-opacity": 0.2 + 0.14 * Number(bin) };
    return drawn("path", { class: kind, d, ...weight });
  });
}

// The nodes before, pale, and lines from them to the pooled node that they are part of.
function membersOf(of, before, places, radius) {
  const colours = cells(of) ? cellColours(of, 7) : null, found = [], lines = new Map();
  before.forEach(([x, y], v) => {
    const cell = of.c?.[v] ?? -1, look = colours && cell >= 0 ? `c${colours[cell]}` : "none";
    if (look !== "none" && !of.soft) lines.set(look, (lines.get(look) ?? "") + line(before[v], places[cell]));
    found.push(drawn("circle", { cx: x.toFixed(3), cy: y.toFixed(3), r: (0.35 * radius).toFixed(3), class: `before ${look}` }));
  });
  return [...[...lines].map(([look, d]) => drawn("path", { class: `part ${look}`, d, "stroke-width": (0.6 * radius).toFixed(3) })), ...found];
}

// The marks that occur.
function legend({ l }) {
  const dot = (x, r, look) => drawn("circle", { cx: x, cy: 8, r, class: look });
  const item = (words, ...marks) => made("li", {}, drawn("svg", { viewBox: "0 0 34 16", "aria-hidden": true }, ...marks), words);
  const stroke = (look, width, x = 2, end = 32) => drawn("path", { class: look, d: `M${x} 8L${end} 8`, "stroke-width": width });
  const found = [], selects = l.some((of) => of.i), clusters = l.some(cells);
  if (selects) found.push(item("kept", dot(17, 7, "c0")));
  if (l.some((of) => of.i && (!of.c || of.c.includes(-1)))) found.push(item("dropped", dot(17, 5, "none pale")));
  if (clusters) found.push(item("one colour: one cluster", dot(8, 7, "c1"), dot(26, 5, selects ? "c1 pale" : "c1")));
  if (l.some((of) => of.h)) found.push(item("size: score", dot(8, 4, "none"), dot(24, 7, "none")));
  else if (clusters) found.push(item("size: nodes in it", dot(8, 4, "none"), dot(24, 7, "none")));
  if (l.some((of) => of.x?.length)) found.push(item("edge", stroke("edge", 1.5)), item("new edge", stroke("new", 1.5)));
  if (l.some((of) => of.w)) found.push(item("width: weight", stroke("edge", 1, 2, 14), stroke("edge", 4, 20)));
  return found;
}

// What is different for the level that is chosen.
function mark() {
  for (const figure of element("panels").children) figure.classList.toggle("current", Number(figure.dataset.step) === level);
  [...element("levels").children].forEach((tab, step) => tab.setAttribute("aria-selected", step === level));
  element("table").hidden = level === 0;
  table();
}

const LISTED = 300;
function table() {
  const box = element("table").querySelector("div"), of = shown.graph.l[level - 1];
  if (!of || !element("table").open) return box.replaceChildren();
  const inside = Array.from({ length: of.n }, () => []);
  of.c?.forEach((cell, v) => { if (cell >= 0) inside[cell].push(v); });
  const numbers = Array.from({ length: of.n }, (_, v) => v).slice(0, LISTED);
  const titles = ["number", of.i && "kept node", of.h && "score", of.c && "nodes in it"].filter(Boolean);
  const body = numbers.map((v) => {
    const values = [v, of.i && of.i[v], of.h && of.h[v], of.c && `${inside[v].slice(0, 30).join(", ")}${inside[v].length > 30 ? ", …" : ""}`];
    return made("tr", {}, ...values.filter((value) => value !== null).map((value) => made("td", {}, String(value))));
  });
  const head = made("tr", {}, ...titles.map((title) => made("th", { scope: "col" }, title)));
  box.replaceChildren(made("table", {}, made("thead", {}, head), made("tbody", {}, ...body)));
  if (of.n > LISTED) box.append(made("p", { class: "note" }, `The first ${LISTED} of ${of.n}.`));
}

function follow(event) {
  const at = event.target.closest?.("circle[data-node]");
  for (const linked of document.querySelectorAll(".linked")) linked.classList.remove("linked");
  if (!at || !shown) return;
  shown.related(Number(at.dataset.step), Number(at.dataset.node)).forEach((nodes, step) => {
    const circles = element("panels").children[step].querySelectorAll("circle[data-node]");
    for (const v of nodes) circles[v].classList.add("linked");
  });
}

const keys = {
  ArrowDown: () => move(1), ArrowUp: () => move(-1), PageDown: () => move(10), PageUp: () => move(-10),
  Home: () => move(-Infinity), End: () => move(Infinity),
  ArrowLeft: () => choose(chosen, Math.max(0, level - 1)), ArrowRight: () => choose(chosen, level + 1),
  "/": () => element("search").focus(),
};

function pressed(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || !keys[event.key]) return;
  const at = event.target.tagName;
  if (at === "SELECT" || (at === "INPUT" && !["ArrowDown", "ArrowUp"].includes(event.key))) return;
  event.preventDefault();
  keys[event.key]();
}

let groups;
async function start() {
  about = await unpack(element("index"));
  rows = { truth: [], predicted: [], wrong: [], ...about.rows };
  groups = filled();
  arrange();
  element("search").addEventListener("input", () => { element("list").scrollTop = 0; arrange(); });
  element("only").addEventListener("change", () => { element("list").scrollTop = 0; arrange(); });
  element("sort").addEventListener("change", () => {
    direction = sorts[element("sort").value][2];
    element("list").scrollTop = 0;
    arrange();
  });
  element("direction").addEventListener("click", () => { direction = -direction; arrange(); });
  element("previous").addEventListener("click", () => move(-1));
  element("next").addEventListener("click", () => move(1));
  element("table").addEventListener("toggle", table);
  element("list").addEventListener("scroll", list);
  element("rows").addEventListener("click", (event) => {
    const row = event.target.closest("[role=option]");
    if (!row || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    choose(Number(row.hash.split("=")[1]));
  });
  document.forms[0].addEventListener("submit", (event) => { event.preventDefault(); if (order.length) choose(order[0]); });
  document.addEventListener("keydown", pressed);
  document.addEventListener("pointerover", follow);
  window.addEventListener("resize", list);
  window.addEventListener("hashchange", () => { const [number, step] = address(); if (number !== null) choose(number, step ?? level); });
  if (!about.parts.length) return;
  const [number, step] = address();
  // At first what the last pooling left: on a narrow window one level is seen.
  await choose(number ?? order[0], step ?? (number === null ? 1 : 0));
}

start();

