"use strict";

// Where nodes are drawn. Stress: nodes as far apart as they are in the graph, by stochastic gradient
// descent over pairs (Zheng, Pawar and Goodman 2019). Random numbers begin with the same seed, so
// that a graph looks the same each time.
const FULL = 300; // Nodes of a part for which all pairs are taken; of larger ones those with pivots.
const PIVOTS = 40;

function randomNumbers(seed) {
  let state = seed >>> 0;
  return () => { // mulberry32
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function neighbourLists(n, edges) {
  const around = Array.from({ length: n }, () => []);
  for (let i = 0; i < edges.length; i += 2) {
    around[edges[i]].push(edges[i + 1]);
    around[edges[i + 1]].push(edges[i]);
  }
  return around;
}

function connectedParts(around) {
  const seen = new Uint8Array(around.length), parts = [];
  for (let start = 0; start < around.length; start++) {
    if (seen[start]) continue;
    const part = [start];
    seen[start] = 1;
    for (let at = 0; at < part.length; at++) {
      for (const v of around[part[at]]) if (!seen[v]) { seen[v] = 1; part.push(v); }
    }
    parts.push(part);
  }
  return parts.sort((a, b) => b.length - a.length);
}

function distances(around, start) {
  const away = new Int32Array(around.length).fill(-1), queue = [start];
  away[start] = 0;
  for (let at = 0; at < queue.length; at++) {
    for (const v of around[queue[at]]) if (away[v] < 0) { away[v] = away[queue[at]] + 1; queue.push(v); }
  }
  return away;
}

// The pairs [i, j, distance, …] of a connected part whose nodes are numbered from 0.
function pairsOf(around) {
  const n = around.length, full = n <= FULL, links = around.reduce((sum, near) => sum + near.length, 0) / 2;
  const pairs = new Int32Array(3 * (full ? (n * (n - 1)) / 2 : PIVOTS * (n - 1) + links));
  let size = 0;
  const add = (i, j, d) => { pairs[size++] = i; pairs[size++] = j; pairs[size++] = d; };
  if (full) {
    for (let i = 0; i < n; i++) {
      const away = distances(around, i);
      for (let j = 0; j < i; j++) add(i, j, away[j]);
    }
    return pairs;
  }
  const nearest = new Int32Array(n).fill(n);
  for (let count = 0, pivot = 0; count < PIVOTS; count++) {
    const away = distances(around, pivot);
    let farthest = pivot;
    for (let j = 0; j < n; j++) {
      if (j !== pivot) add(pivot, j, away[j]);
      nearest[j] = Math.min(nearest[j], away[j]);
      if (nearest[j] > nearest[farthest]) farthest = j;
    }
    pivot = farthest;
  }
  for (let i = 0; i < n; i++) for (const j of around[i]) if (j < i) add(i, j, 1);
  return pairs;
}

function descend(n, pairs) {
  const random = randomNumbers(n), x = new Float64Array(n), y = new Float64Array(n);
  for (let i = 0; i < n; i++) { x[i] = random() * Math.sqrt(n); y[i] = random() * Math.sqrt(n); }
  const count = pairs.length / 3, order = Uint32Array.from({ length: count }, (_, i) => i);
  let longest = 1;
  for (let i = 2; i < pairs.length; i += 3) longest = Math.max(longest, pairs[i]);
  const rounds = 40, first = longest * longest, fall = Math.log(first / 0.02) / (rounds - 1);
  for (let round = 0; round < rounds; round++) {
    const rate = first * Math.exp(-fall * round);
    for (let i = count - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1)), held = order[i];
      order[i] = order[j];
      order[j] = held;
    }
    for (let k = 0; k < count; k++) {
      const at = 3 * order[k], i = pairs[at], j = pairs[at + 1], d = pairs[at + 2];
      const dx = x[i] - x[j], dy = y[i] - y[j], length = Math.sqrt(dx * dx + dy * dy) || 1e-6; // hypot is slow
      const move = (Math.min(1, rate / (d * d)) * (length - d)) / (2 * length);
      x[i] -= move * dx; y[i] -= move * dy;
      x[j] += move * dx; y[j] += move * dy;
    }
  }
  return [x, y];
}

// Turned so that it is widest from left to right.
function upright([x, y]) {
  const n = x.length;
  let mx = 0, my = 0, xx = 0, xy = 0, yy = 0;
  for (let i = 0; i < n; i++) { mx += x[i] / n; my += y[i] / n; }
  for (let i = 0; i < n; i++) {
    xx += (x[i] - mx) ** 2; xy += (x[i] - mx) * (y[i] - my); yy += (y[i] - my) ** 2;
  }
  const turn = Math.atan2(2 * xy, xx - yy) / 2, c = Math.cos(turn), s = Math.sin(turn);
  return Array.from(x, (_, i) => [c * (x[i] - mx) + s * (y[i] - my), c * (y[i] - my) - s * (x[i] - mx)]);
}

// A place [x, y] for each node; an edge is about 1 long. Parts are put side by side.
function layout(n, edges) {
  const around = neighbourLists(n, edges), where = new Array(n), gap = 1.5;
  const parts = connectedParts(around).map((part) => {
    const place = new Map(part.map((v, i) => [v, i]));
    const own = part.map((v) => around[v].map((u) => place.get(u)));
    const found = part.length === 1 ? [[0, 0]] : upright(descend(part.length, pairsOf(own)));
    const xs = found.map((p) => p[0]), ys = found.map((p) => p[1]);
    const low = [least(xs), least(ys)];
    return { part, found, low, box: [most(xs) - low[0], most(ys) - low[1]] };
  });
  const area = parts.reduce((sum, { box }) => sum + (box[0] + gap) * (box[1] + gap), 0);
  const limit = Math.max(1.3 * Math.sqrt(area), ...parts.slice(0, 1).map(({ box }) => box[0]));
  let x = 0, y = 0, height = 0;
  for (const { part, found, low, box } of parts) {
    if (x > 0 && x + box[0] > limit) { x = 0; y += height + gap; height = 0; }
    part.forEach((v, i) => { where[v] = [found[i][0] - low[0] + x, found[i][1] - low[1] + y]; });
    x += box[0] + gap;
    height = Math.max(height, box[1]);
  }
  return where;
}

function least(values) { return values.reduce((a, b) => Math.min(a, b), Infinity); }
function most(values) { return values.reduce((a, b) => Math.max(a, b), -Infinity); }

// Where pooled nodes are drawn: a kept node where it was, a cluster in the middle of its nodes.
function placesOf(level, before) {
  if (level.i) return level.i.map((v) => before[v]);
  if (!level.c || !before.length) return layout(level.n, level.e);
  const sums = Array.from({ length: level.n }, () => [0, 0, 0]);
  level.c.forEach((cell, v) => {
    if (cell < 0) return;
    sums[cell][0] += before[v][0]; sums[cell][1] += before[v][1]; sums[cell][2]++;
  });
  const xs = before.map((p) => p[0]), ys = before.map((p) => p[1]);
  const middle = [(least(xs) + most(xs)) / 2, (least(ys) + most(ys)) / 2];
  const extent = Math.max(most(xs) - least(xs), most(ys) - least(ys));
  const places = sums.map(([x, y, count]) => (count ? [x / count, y / count] : [...middle]));
  return apart(places, Math.max(0.7, (0.5 * extent) / Math.sqrt(level.n)));
}

// Moved until no two are much nearer than the distance.
function apart(places, distance) {
  const n = places.length;
  for (let round = 0; round < 100 && n > 1 && n <= 2000; round++) {
    const push = Array.from({ length: n }, () => [0, 0, 0]);
    let near = false;
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < n; j++) {
        const dx = places[i][0] - places[j][0], dy = places[i][1] - places[j][1];
        const length = Math.sqrt(dx * dx + dy * dy);
        if (i === j || length >= distance) continue;
        near = true;
        const unit = length < 1e-9 ? [Math.cos(2.399963 * i), Math.sin(2.399963 * i)] : [dx / length, dy / length];
        push[i][0] += ((distance - length) / 2) * unit[0];
        push[i][1] += ((distance - length) / 2) * unit[1];
        push[i][2]++;
      }
    }
    if (!near) break;
    places = places.map(([x, y], i) => {
      const [px, py, count] = push[i];
      return count ? [x + (0.8 * px) / count, y + (0.8 * py) / count] : [x, y];
    });
  }
  return places;
}

// How near the nearest nodes are: a quarter of the nodes have one that is nearer.
function spacing(places) {
  const n = places.length;
  if (n < 2 || n > 2000) return Infinity;
  const nearest = new Float64Array(n).fill(Infinity);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < i; j++) {
      const dx = places[i][0] - places[j][0], dy = places[i][1] - places[j][1], d = dx * dx + dy * dy;
      if (d < nearest[i]) nearest[i] = d;
      if (d < nearest[j]) nearest[j] = d;
    }
  }
  return Math.sqrt(nearest.sort()[Math.floor(n / 4)]);
}

// New edges that would run over a node, where there are few: they are drawn as arcs, or else that from
// one end of a path to the other would be hidden by the edges between.
function runsOver(places, e, added) {
  const found = new Set(), n = places.length;
  for (const at of added.length <= 3 * n && n <= 2000 ? added : []) {
    const [a, b] = [places[e[2 * at]], places[e[2 * at + 1]]], dx = b[0] - a[0], dy = b[1] - a[1];
    const length = dx * dx + dy * dy || 1e-12;
    for (let v = 0; v < n; v++) {
      if (v === e[2 * at] || v === e[2 * at + 1]) continue;
      const px = places[v][0] - a[0], py = places[v][1] - a[1], share = (px * dx + py * dy) / length;
      if (share < 0.05 || share > 0.95) continue;
      if ((px - share * dx) ** 2 + (py - share * dy) ** 2 < 0.15 ** 2) { found.add(at); break; }
    }
  }
  return found;
}

// A colour for each pooled node: neighbours differ, as far as there are colours.
function cellColours(level, colours) {
  const around = neighbourLists(level.n, level.e), chosen = new Array(level.n).fill(-1);
  return around.map((near, node) => {
    const used = new Array(colours).fill(0);
    for (const v of near) if (chosen[v] >= 0) used[chosen[v]]++;
    let best = 0;
    const rank = (c) => used[c] * colours + ((c - node) % colours + colours) % colours;
    for (let c = 1; c < colours; c++) if (rank(c) < rank(best)) best = c;
    chosen[node] = best;
    return best;
  });
}

