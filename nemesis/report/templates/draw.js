// The main drawing: lanes of replicas, then throughput and latency of each function, on one axis of time.
"use strict";
const picture = JSON.parse(document.getElementById("picture").textContent);
const element = (id) => document.getElementById(id);
const LEFT = 66, RIGHT = 16, TITLE = 22, AXIS = 24, LANE = 50, RATE = 96, LATENCY = 150, LABEL = 16, LABEL_ROWS = 3;
const NEAR = 14;
const view = { from: 0, to: picture.duration };
const filter = { process: "", key: "", outcome: "", f: "", words: "" };
const redraws = [];
let chosen = null, pointed = -1, waiting = false;

function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; for (const each of redraws) each(); });
}

function show(from, to) {
  const width = Math.min(Math.max(to - from, picture.duration / 100000), picture.duration);
  view.from = Math.min(Math.max(from, 0), picture.duration - width);
  view.to = view.from + width;
  redraw();
}

function made(tag, parent, text, properties) {
  const one = document.createElement(tag);
  if (text !== undefined) one.textContent = text;
  Object.assign(one, properties || {});
  if (parent) parent.append(one);
  return one;
}

const seconds = (time) => `${time.toFixed(3)} s`;
const until = (end) => (end === null ? "the end" : seconds(end));
const neutral = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// --- operations: columns, and what the filter leaves of them ---------------------------------------------------------

const columns = picture.operations, count = columns.index.length;
const text = (name, at) => columns[name].texts[columns[name].codes[at]];
const placeOf = new Map(columns.index.map((index, at) => [index, at]));
const anomalyOf = new Map();
for (const anomaly of picture.anomalies) {
  for (const index of anomaly.operations) {
    if (placeOf.has(index) && !anomalyOf.has(placeOf.get(index))) anomalyOf.set(placeOf.get(index), anomaly.number);
  }
}
const started = (at) => columns.invoked[at] / 1e6;
const tookMs = (at) => columns.took[at] / 1e3;
const returned = (at) => (columns.took[at] < 0 ? null : (columns.invoked[at] + columns.took[at]) / 1e6);
const passes = new Uint8Array(count).fill(1);
const placesOf = new Map(picture.plots.map((plot) => [plot, picture.outcomes.map(() => [])]));
const outcomeOf = columns.outcome.texts.map((name) => picture.outcomes.findIndex(({ words }) => words === name));
for (let at = 0; at < count; at++) {
  const plot = picture.plots.find((one) => one.with.includes(text("f", at)));
  if (plot) placesOf.get(plot)[outcomeOf[columns.outcome.codes[at]]].push(at);
}

function told(at) {
  const end = returned(at);
  const lines = [
    `process ${text("process", at)}: ${text("f", at)} ${columns.value[at]}`.trim() + `, ${text("outcome", at)}`,
    text("key", at) + (columns.offset[at] === "" ? "" : `, offset ${columns.offset[at]}`),
    `${seconds(started(at))} ` + (end === null ? "and never returned" : `to ${seconds(end)}, ${tookMs(at).toFixed(2)} ms`),
  ];
  if (text("node", at)) lines.push(`replica ${text("node", at)}`);
  if (text("error", at)) lines.push(text("error", at));
  if (anomalyOf.has(at)) lines.push(`of anomaly ${anomalyOf.get(at)}`);
  return lines.filter((line) => line).join("\n");
}

function sift() {
  const words = filter.words.toLowerCase().split(/\s+/).filter((word) => word);
  const codes = ["process", "key", "outcome", "f"].filter((name) => filter[name] !== "")
    .map((name) => [columns[name].codes, columns[name].texts.indexOf(filter[name])]);
  for (let at = 0; at < count; at++) {
    let does = codes.every(([column, code]) => column[at] === code) ? 1 : 0;
    if (does && words.length) {
      const said = `${columns.index[at]} ${columns.value[at]} ${told(at)}`.toLowerCase();
      does = words.every((word) => said.includes(word)) ? 1 : 0;
    }
    passes[at] = does;
  }
}

// --- one canvas -------------------------------------------------------------------------------------------------------

function paper(canvas, height) {
  const ratio = window.devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
  const size = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== size[0] || canvas.height !== size[1]) {
    [canvas.width, canvas.height] = size;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  return { pen, width, height, hits: [], ink: neutral("--ink"), soft: neutral("--soft"), grid: neutral("--grid") };
}

const across = (sheet, time) => LEFT + ((time - view.from) / (view.to - view.from)) * (sheet.width - LEFT - RIGHT);
const timeAt = (width, x) => view.from + ((x - LEFT) / (width - LEFT - RIGHT)) * (view.to - view.from);

function nice(range, steps) {
  const raw = range / Math.max(steps, 1), power = 10 ** Math.floor(Math.log10(raw || 1));
  return [1, 2, 5, 10].map((part) => part * power).find((step) => step >= raw) || power;
}

function write(sheet, words, x, y, align, colour) {
  sheet.pen.fillStyle = colour || sheet.ink;
  sheet.pen.textAlign = align || "left";
  sheet.pen.textBaseline = "middle";
  sheet.pen.fillText(words, x, y);
}

function title(sheet, words, y) {
  sheet.pen.fillStyle = neutral("--panel");
  sheet.pen.fillRect(LEFT - 2, y - 8, sheet.pen.measureText(words).width + 6, 16);
  write(sheet, words, LEFT, y);
}

function rule(sheet, x0, y0, x1, y1, colour, width, dash) {
  const pen = sheet.pen;
  pen.strokeStyle = colour; pen.lineWidth = width || 1; pen.setLineDash(dash || []);
  pen.beginPath(); pen.moveTo(x0, y0); pen.lineTo(x1, y1); pen.stroke();
  pen.setLineDash([]);
}

function clipped(sheet, top, height, draw) {
  sheet.pen.save();
  sheet.pen.beginPath();
  sheet.pen.rect(LEFT - 5, top, sheet.width - LEFT - RIGHT + 10, height);
  sheet.pen.clip();
  draw();
  sheet.pen.restore();
}

function bar(sheet, start, end, y, height, colour, words) {
  const x0 = Math.max(across(sheet, start), LEFT), x1 = Math.min(across(sheet, end === null ? picture.duration : end), sheet.width - RIGHT);
  if (x1 < LEFT || x0 > sheet.width - RIGHT) return null;
  const width = Math.max(x1 - x0, 1.5);
  sheet.pen.fillStyle = colour;
  sheet.pen.fillRect(x0, y, width, height);
  if (words) sheet.hits.push({ x0: x0 - 2, x1: x0 + width + 2, y0: y, y1: y + height, words });
  return { x: x0, width };
}

function times(sheet, y, top) {
  const step = nice(view.to - view.from, (sheet.width - LEFT - RIGHT) / 90);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  for (let time = Math.ceil(view.from / step - 1e-9) * step; time <= view.to + 1e-9; time += step) {
    const x = across(sheet, time);
    rule(sheet, x, top, x, y, sheet.grid);
    write(sheet, `${time.toFixed(digits)} s`, Math.min(x, sheet.width - RIGHT - 12), y + 11, "center", sheet.soft);
  }
}

const PATTERNS = { "/": [[0, 8, 8, 0]], "\\": [[0, 0, 8, 8]], x: [[0, 8, 8, 0], [0, 0, 8, 8]], "|": [[4, 0, 4, 8]], "-": [[0, 4, 8, 4]], "+": [[4, 0, 4, 8], [0, 4, 8, 4]] };
const patterns = new Map();
function patterned(sheet, look) {
  if (!(look.pattern in PATTERNS)) return look.colour;
  const key = look.colour + look.pattern;
  if (!patterns.has(key)) {
    const tile = made("canvas", null, undefined, { width: 8, height: 8 }), pen = tile.getContext("2d");
    pen.strokeStyle = look.colour; pen.lineWidth = 2.4;
    for (const [x0, y0, x1, y1] of PATTERNS[look.pattern]) { pen.beginPath(); pen.moveTo(x0, y0); pen.lineTo(x1, y1); pen.stroke(); }
    patterns.set(key, sheet.pen.createPattern(tile, "repeat"));
  }
  return patterns.get(key);
}

const SHAPES = {
  up: [[0, -6], [6, 5], [-6, 5]], down: [[0, 6], [6, -5], [-6, -5]], diamond: [[0, -6], [6, 0], [0, 6], [-6, 0]],
  star: Array.from({ length: 10 }, (_, at) => [Math.sin(at * Math.PI / 5) * (at % 2 ? 3 : 7), -Math.cos(at * Math.PI / 5) * (at % 2 ? 3 : 7)]),
};
function symbol(sheet, name, x, y, colour) {
  if (name === "cross") {
    rule(sheet, x - 5, y - 5, x + 5, y + 5, colour, 2.5);
    rule(sheet, x - 5, y + 5, x + 5, y - 5, colour, 2.5);
    return;
  }
  const pen = sheet.pen;
  pen.fillStyle = colour;
  pen.beginPath();
  SHAPES[name].forEach(([dx, dy], at) => (at ? pen.lineTo(x + dx, y + dy) : pen.moveTo(x + dx, y + dy)));
  pen.fill();
}

// --- lanes ------------------------------------------------------------------------------------------------------------

function lanes(sheet, top) {
  const laneOf = new Map(picture.replicas.map((replica, at) => [replica, top + at * LANE]));
  const height = Math.max(picture.replicas.length, 1) * LANE;
  times(sheet, top + height, top);
  for (const [replica, y] of laneOf) write(sheet, `replica ${replica}`, LEFT - 8, y + LANE / 2, "right");
  clipped(sheet, top, height, () => {
    for (const [replica, epoch, log, start, end] of picture.reigns) {
      if (!laneOf.has(replica)) continue;
      const y = laneOf.get(replica) + 3;
      const words = `replica ${replica} leads${log ? ` ${log}` : ""}, epoch ${epoch}\n${seconds(start)} to ${until(end)}`;
      const drawn = bar(sheet, start, end, y, 15, picture.leader, words);
      if (drawn && drawn.width > sheet.pen.measureText(`epoch ${epoch}`).width + 22) {
        write(sheet, `epoch ${epoch}`, drawn.x + 14, y + 8.5, "left", "#ffffff");
      }
    }
    for (const fault of picture.faults) {
      const look = picture.looks[fault.look], [start, end] = fault.span;
      for (const replica of fault.replicas.length ? fault.replicas : picture.replicas) {
        if (!laneOf.has(replica)) continue;
        const y = laneOf.get(replica) + 32;
        const words = `${fault.name}${fault.target ? `: ${fault.target}` : ""}\n${seconds(start)} to ${until(end)}`;
        const drawn = bar(sheet, start, end, y, 15, patterned(sheet, look), words);
        if (drawn) { sheet.pen.strokeStyle = look.colour; sheet.pen.lineWidth = 1.5; sheet.pen.strokeRect(drawn.x, y, drawn.width, 15); }
      }
    }
    for (const [kind, replica, time, epoch, offset, log] of picture.marks) {
      const x = across(sheet, time), y = laneOf.get(replica) + LANE / 2;
      if (!laneOf.has(replica) || x < LEFT || x > sheet.width - RIGHT) continue;
      const look = picture.kinds[kind];
      symbol(sheet, look.symbol, x, y, look.colour);
      const words = `${look.words}${log ? ` of ${log}` : ""} on replica ${replica}${epoch === null ? "" : `, epoch ${epoch}`}${offset === null ? "" : `, at offset ${offset}`}\n${seconds(time)}`;
      sheet.hits.push({ x0: x - 7, x1: x + 7, y0: y - 7, y1: y + 7, words });
    }
  });
  return top + height + AXIS;
}

// --- labels of elections and truncations: those that fit, so that none covers another ----------------------------------

function ruledMarks() {
  const seen = new Map();
  for (const mark of picture.marks) {
    if (picture.kinds[mark[0]].verb) seen.set(`${mark[0]} ${mark[1]} ${mark[2].toFixed(1)}`, mark);
  }
  return [...seen.values()].sort((a, b) => a[2] - b[2]);
}
const ruled = ruledMarks();

function labels(sheet, top) {
  const holder = element("labels"), ends = Array(LABEL_ROWS).fill(0);
  holder.replaceChildren();
  for (const [kind, replica, time, epoch] of ruled) {
    const words = `${replica} ${picture.kinds[kind].verb}${epoch === null ? "" : ` epoch ${epoch}`}`;
    const x = across(sheet, time), width = sheet.pen.measureText(words).width + 8;
    const row = ends.findIndex((end) => end <= x);
    if (x < LEFT || row < 0 || x + width > sheet.width) continue;
    ends[row] = x + width;
    const label = made("span", holder, words, { className: "label" });
    label.style.left = `${x}px`;
    label.style.top = `${top + row * LABEL}px`;
  }
}

// --- throughput and latency -------------------------------------------------------------------------------------------

function throughput(sheet, plot, top) {
  const highest = Math.max(1, ...plot.rates.flatMap(([, rates]) => rates)), step = nice(highest, 3);
  const y = (rate) => top + RATE - (rate / (Math.ceil(highest / step) * step)) * RATE;
  title(sheet, `${plot.f}: completions per second`, top - 12);
  for (let rate = 0; rate <= highest + step * 0.999; rate += step) {
    rule(sheet, LEFT, y(rate), sheet.width - RIGHT, y(rate), sheet.grid);
    write(sheet, rate.toLocaleString("en"), LEFT - 8, y(rate), "right", sheet.soft);
  }
  clipped(sheet, top - 1, RATE + 2, () => {
    for (const [outcome, rates] of plot.rates) {
      const look = picture.outcomes[outcome], pen = sheet.pen;
      if (filter.outcome && filter.outcome !== look.words) continue;
      pen.beginPath();
      rates.forEach((rate, at) => {
        const x0 = across(sheet, at * picture.binS), x1 = across(sheet, (at + 1) * picture.binS);
        if (at) pen.lineTo(x0, y(rate)); else pen.moveTo(x0, y(rate));
        pen.lineTo(x1, y(rate));
      });
      pen.strokeStyle = look.colour; pen.lineWidth = 1.6; pen.setLineDash(look.dash); pen.stroke(); pen.setLineDash([]);
      if (look.words !== "ok") continue;
      pen.lineTo(across(sheet, rates.length * picture.binS), y(0)); pen.lineTo(across(sheet, 0), y(0));
      pen.globalAlpha = 0.18; pen.fillStyle = look.colour; pen.fill(); pen.globalAlpha = 1;
    }
  });
}

const bounds = new Map();
function range(plot) {
  if (!bounds.has(plot.f)) {
    let low = Infinity, high = -Infinity;
    for (const at of placesOf.get(plot).flat()) {
      if (columns.took[at] < 0) continue;
      low = Math.min(low, tookMs(at)); high = Math.max(high, tookMs(at));
    }
    bounds.set(plot.f, high < low ? [0, 2] : [Math.floor(Math.log10(low)), Math.max(Math.ceil(Math.log10(high)), Math.floor(Math.log10(low)) + 1)]);
  }
  return bounds.get(plot.f);
}

// Points are written as pixels: tens of thousands of lines would be drawn anew, slowly, at each step of a zoom.
const around = (reach, has) => {
  const found = [];
  for (let dx = -reach; dx <= reach; dx++) for (let dy = -reach; dy <= reach; dy++) if (has(Math.abs(dx), Math.abs(dy))) found.push([dx, dy]);
  return found;
};
function shapesAt(ratio) {
  const reach = Math.round(3 * ratio), dot = Math.round(ratio);
  return {
    ok: around(dot, () => true),
    fail: around(reach, (dx, dy) => Math.abs(dx - dy) <= ratio / 2),
    info: around(reach + 1, (dx, dy) => dx + dy <= reach + 1 && dx + dy > reach + 1 - 2 * ratio),
    final: around(reach + 1, (dx, dy) => Math.max(dx, dy) > reach + 1 - 1.5 * ratio),
  };
}
const pixelOf = (colour, alpha) => {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return ((alpha << 24) | (b << 16) | (g << 8) | r) >>> 0;
};

function points(sheet, plot, top, y) {
  const ratio = window.devicePixelRatio || 1, shapes = shapesAt(ratio), above = 10;
  const width = Math.round(sheet.width * ratio), height = Math.round((LATENCY + 2 * above) * ratio);
  const tile = made("canvas", null, undefined, { width, height }), pen = tile.getContext("2d");
  const image = pen.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  for (const [outcome, { words, colour }] of picture.outcomes.entries()) {
    const pixel = pixelOf(colour, words === "ok" ? 150 : 245);
    for (const at of placesOf.get(plot)[outcome]) {
      if (!passes[at]) continue;
      const x = across(sheet, started(at));
      if (x < LEFT || x > sheet.width - RIGHT) continue;
      const down = columns.took[at] < 0 ? top - 2 : y(tookMs(at));
      sheet.points.push(at, x, down);
      const column = Math.round(x * ratio), row = Math.round((down - top + above) * ratio);
      for (const [dx, dy] of text("f", at) === "final-read" ? shapes.final : shapes[words]) {
        if (row + dy >= 0 && row + dy < height) pixels[(row + dy) * width + column + dx] = pixel;
      }
    }
  }
  pen.putImageData(image, 0, 0);
  sheet.pen.drawImage(tile, 0, top - above, sheet.width, LATENCY + 2 * above);
}

function latency(sheet, plot, top) {
  const [low, high] = range(plot), pen = sheet.pen;
  const y = (ms) => top + LATENCY - ((Math.log10(ms) - low) / (high - low)) * LATENCY;
  title(sheet, `${plot.f}: latency in ms`, top - 12);
  times(sheet, top + LATENCY, top);
  for (let power = low; power <= high; power++) {
    rule(sheet, LEFT, y(10 ** power), sheet.width - RIGHT, y(10 ** power), sheet.grid);
    write(sheet, (10 ** power).toLocaleString("en"), LEFT - 8, y(10 ** power), "right", sheet.soft);
  }
  clipped(sheet, top - 8, LATENCY + 12, () => {
    points(sheet, plot, top, y);
    for (const line of filter.outcome && filter.outcome !== "ok" ? [] : plot.quantiles) {
      pen.beginPath();
      let isUp = true;
      line.ms.forEach((ms, at) => {
        if (ms === null) { isUp = true; return; }
        const x = across(sheet, (at + 0.5) * picture.binS);
        if (isUp) pen.moveTo(x, y(ms)); else pen.lineTo(x, y(ms));
        isUp = false;
      });
      pen.strokeStyle = picture.quantile; pen.lineWidth = 2; pen.setLineDash(line.dash); pen.stroke(); pen.setLineDash([]);
    }
  });
}
