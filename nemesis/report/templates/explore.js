// What a reader does with the drawing: points, zooms, filters, and goes from a mark to its card and back.
"use strict";
const canvas = element("plots"), tip = element("tip"), markHolder = element("marks");
const MARK_ROWS = 8, MARK_HEIGHT = 22;
let sheet = null;

// --- anomalies --------------------------------------------------------------------------------------------------------

const momentOf = (anomaly) => anomaly.at ?? picture.duration;
const marks = [...picture.anomalies].sort((a, b) => momentOf(a) - momentOf(b)).map((anomaly) => {
  const link = made("a", markHolder, String(anomaly.number), { className: "mark", id: `mark-${anomaly.number}`, href: `#anomaly-${anomaly.number}` });
  const when = anomaly.span ? `${seconds(anomaly.span[0])} to ${until(anomaly.span[1])}` : "no operation shows it: marked at the end";
  const words = `${anomaly.number}. ${anomaly.name}${anomaly.log ? ` in ${anomaly.log}` : ""}\n${anomaly.says}\n${when}`;
  link.setAttribute("aria-label", `Anomaly ${words}`);
  link.addEventListener("pointerenter", () => sayAt(words, link.offsetLeft + link.offsetWidth + 6, link.offsetTop - 14));
  link.addEventListener("pointerleave", hush);
  link.addEventListener("focus", () => { choose(anomaly.number); sayAt(words, link.offsetLeft + link.offsetWidth + 6, link.offsetTop - 14); });
  link.addEventListener("blur", hush);
  return { anomaly, link };
});

// Where each mark goes so that none covers another: in the first row with room, else beside its place.
function placed(width) {
  const rows = [], shown = [];
  for (const { anomaly, link } of marks) {
    const x = across({ width }, momentOf(anomaly)), isSeen = x >= LEFT - 1 && x <= width - RIGHT + 1;
    link.hidden = !isSeen;
    if (!isSeen) continue;
    const size = 14 + 8 * link.textContent.length;
    let row = rows.findIndex((ends) => ends.at(-1).left + ends.at(-1).size + 2 <= x - size / 2);
    if (row < 0 && rows.length < MARK_ROWS) row = rows.push([]) - 1;
    if (row < 0) row = rows.indexOf(rows.reduce((one, other) => (one.at(-1).left <= other.at(-1).left ? one : other)));
    const before = rows[row].at(-1), left = Math.max(x - size / 2, before ? before.left + before.size + 2 : 0);
    const place = { anomaly, link, row, left, size };
    rows[row].push(place);
    shown.push(place);
  }
  for (const row of rows) {
    let edge = width;
    for (const place of [...row].reverse()) { place.left = Math.min(place.left, edge - place.size); edge = place.left - 2; }
  }
  return { rows: rows.length, shown };
}

function placeMarks(places, top) {
  for (const { anomaly, link, row, left, size } of places) {
    link.setAttribute("aria-current", String(chosen === anomaly.number));
    link.style.left = `${left}px`;
    link.style.width = `${size}px`;
    link.style.top = `${top + row * MARK_HEIGHT}px`;
  }
}

function choose(number) {
  chosen = number;
  for (const card of document.querySelectorAll(".anomaly.chosen")) card.classList.remove("chosen");
  const card = element(`anomaly-${number}`);
  if (card) card.classList.add("chosen");
  redraw();
}

function highlight(top, bottom) {
  const pen = sheet.pen, one = picture.anomalies.find((anomaly) => anomaly.number === chosen);
  clipped(sheet, top, bottom - top, () => {
    if (one && one.span) {
      const x0 = across(sheet, one.span[0]), x1 = across(sheet, one.span[1]);
      pen.fillStyle = picture.anomaly; pen.globalAlpha = 0.16;
      pen.fillRect(x0, top, Math.max(x1 - x0, 2), bottom - top);
      pen.globalAlpha = 1;
    }
  });
  for (let at = 0; at < sheet.points.length; at += 3) {
    const [place, x, y] = [sheet.points[at], sheet.points[at + 1], sheet.points[at + 2]];
    const isOfAnomaly = anomalyOf.has(place);
    if (!isOfAnomaly && place !== pointed) continue;
    pen.strokeStyle = place === pointed ? sheet.ink : picture.anomaly;
    pen.lineWidth = one && one.operations.includes(columns.index[place]) ? 3.5 : 2;
    pen.beginPath(); pen.arc(x, y, place === pointed ? 8 : 6, 0, 7); pen.stroke();
  }
}

// --- the whole drawing ------------------------------------------------------------------------------------------------

function drawAll() {
  const plots = picture.plots.filter((plot) => filter.f === "" || plot.with.includes(filter.f));
  const places = placed(canvas.parentElement.clientWidth), lanesTop = places.rows * MARK_HEIGHT + 8;
  const plotsTop = lanesTop + Math.max(picture.replicas.length, 1) * LANE + AXIS + (ruled.length ? LABEL_ROWS * LABEL : 0);
  sheet = paper(canvas, plotsTop + 12 + plots.length * (2 * TITLE + RATE + LATENCY + AXIS + 12));
  sheet.points = [];
  const below = lanes(sheet, lanesTop);
  labels(sheet, below + 2);
  clipped(sheet, plotsTop, sheet.height - plotsTop, () => {
    sheet.pen.globalAlpha = 0.13;
    for (const fault of picture.faults) bar(sheet, ...fault.span, plotsTop + 8, sheet.height, picture.looks[fault.look].colour);
    sheet.pen.globalAlpha = 1;
    for (const [log, start, end] of picture.offline) {
      bar(sheet, start, end, plotsTop, 7, picture.offlineColour, `${log} had no leader\n${seconds(start)} to ${until(end)}`);
    }
    for (const [kind, , time] of ruled) {
      const x = across(sheet, time), look = picture.kinds[kind];
      rule(sheet, x, plotsTop - 2, x, sheet.height, look.colour, 1.2, look.dash);
    }
  });
  let top = plotsTop + 12;
  for (const plot of plots) {
    throughput(sheet, plot, top + TITLE);
    latency(sheet, plot, top + 2 * TITLE + RATE + 4);
    top += 2 * TITLE + RATE + LATENCY + AXIS + 12;
  }
  highlight(plotsTop + 8, sheet.height);
  if (drag) {
    sheet.pen.fillStyle = sheet.soft; sheet.pen.globalAlpha = 0.25;
    sheet.pen.fillRect(Math.min(drag.from, drag.to), 0, Math.abs(drag.to - drag.from), sheet.height);
    sheet.pen.globalAlpha = 1;
  }
  placeMarks(places.shown, 2);
  for (const id of ["from", "to"]) if (document.activeElement !== element(id)) element(id).value = view[id].toFixed(2);
}

// --- pointing ---------------------------------------------------------------------------------------------------------

function sayAt(words, x, y) {
  tip.textContent = words;
  tip.hidden = false;
  tip.style.left = `${Math.max(Math.min(x, sheet.width - tip.offsetWidth - 4), 0)}px`;
  tip.style.top = `${y + 14}px`;
}

function hush() { tip.hidden = true; }

function nearest(x, y) {
  let best = -1, least = NEAR * NEAR, place = 0;
  for (let at = 0; at < sheet.points.length; at += 3) {
    const dx = sheet.points[at + 1] - x, dy = sheet.points[at + 2] - y, far = dx * dx + dy * dy;
    if (far < least || (far === least && anomalyOf.has(sheet.points[at]))) { best = sheet.points[at]; least = far; place = at; }
  }
  return best < 0 ? null : { at: best, x: sheet.points[place + 1], y: sheet.points[place + 2] };
}

let drag = null;
function aim(event) {
  const found = nearest(event.offsetX, event.offsetY), before = pointed;
  pointed = found ? found.at : -1;
  if (pointed !== before) redraw();
  const hit = found ? null : sheet.hits.findLast(({ x0, x1, y0, y1 }) => event.offsetX >= x0 && event.offsetX <= x1 && event.offsetY >= y0 && event.offsetY <= y1);
  if (found) sayAt(told(found.at), found.x, found.y);
  else if (hit) sayAt(hit.words, event.offsetX, event.offsetY);
  else hush();
}
canvas.addEventListener("pointermove", (event) => {
  if (!drag) { aim(event); return; }
  drag.to = event.offsetX;
  redraw();
});
canvas.addEventListener("pointerleave", () => { hush(); if (!drag && pointed >= 0) { pointed = -1; redraw(); } });
canvas.addEventListener("pointerdown", (event) => {
  if (event.pointerType === "touch") { aim(event); return; }
  if (event.button !== 0) return;
  canvas.setPointerCapture(event.pointerId);
  drag = { from: event.offsetX, to: event.offsetX };
});
canvas.addEventListener("pointerup", () => {
  if (!drag) return;
  const { from, to } = drag;
  drag = null;
  if (Math.abs(to - from) > 8) show(timeAt(sheet.width, Math.min(from, to)), timeAt(sheet.width, Math.max(from, to)));
  else toCard();
  redraw();
});
canvas.addEventListener("pointercancel", () => { drag = null; redraw(); });
canvas.addEventListener("dblclick", () => show(0, picture.duration));

function toCard() {
  if (!anomalyOf.has(pointed)) return;
  const hash = `#anomaly-${anomalyOf.get(pointed)}`;
  if (location.hash === hash) follow(); else location.hash = hash;
}

function zoom(part) {
  const middle = (view.from + view.to) / 2, half = ((view.to - view.from) * part) / 2;
  show(middle - half, middle + half);
}
function move(part) { const by = (view.to - view.from) * part; show(view.from + by, view.to + by); }

function step(by) {
  let at = pointed < 0 ? (by > 0 ? -1 : count) : pointed;
  do at += by; while (at >= 0 && at < count && !(passes[at] && started(at) >= view.from && started(at) <= view.to));
  if (at < 0 || at >= count) return;
  pointed = at;
  drawAll();
  for (let place = 0; place < sheet.points.length; place += 3) {
    if (sheet.points[place] === at) { sayAt(told(at), sheet.points[place + 1], sheet.points[place + 2]); break; }
  }
}

const KEYS = {
  ArrowRight: () => step(1), ArrowLeft: () => step(-1),
  "+": () => zoom(0.5), "-": () => zoom(2), Escape: () => { pointed = -1; hush(); redraw(); },
  Enter: toCard,
};
canvas.addEventListener("keydown", (event) => {
  if (!(event.key in KEYS) || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  KEYS[event.key]();
});
canvas.addEventListener("blur", hush);
const BUTTONS = { "zoom-in": () => zoom(0.5), "zoom-out": () => zoom(2), earlier: () => move(-0.5), later: () => move(0.5), whole: () => show(0, picture.duration) };
for (const [id, act] of Object.entries(BUTTONS)) element(id).addEventListener("click", act);

// --- filters, and the table of what they leave ------------------------------------------------------------------------

const PAGE = 50;
let listed = PAGE;
for (const name of ["process", "key", "outcome", "f"]) {
  const texts = [...columns[name].texts].filter((one) => one !== "").sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  for (const one of texts) made("option", element(name), one, { value: one });
  element(name).addEventListener("change", (event) => { filter[name] = event.target.value; refresh(); });
}
element("words").addEventListener("input", (event) => { filter.words = event.target.value; refresh(); });
for (const id of ["from", "to"]) {
  element(id).addEventListener("change", () => {
    const from = Number(element("from").value), to = Number(element("to").value);
    if (Number.isFinite(from) && to > from) show(from, to); else redraw();
  });
  element(id).addEventListener("blur", redraw);
}
element("filters").addEventListener("submit", (event) => event.preventDefault());
element("filters").addEventListener("reset", () => {
  for (const name of Object.keys(filter)) filter[name] = "";
  show(0, picture.duration);
  refresh();
});
element("more").addEventListener("click", () => { listed += PAGE; list(); });
element("list").addEventListener("toggle", list);

function left() {
  const found = [];
  for (let at = 0; at < count; at++) if (passes[at] && started(at) >= view.from && started(at) <= view.to) found.push(at);
  return found;
}

function refresh() { listed = PAGE; pointed = -1; sift(); redraw(); }

let counted = "";
function list() {
  const now = `${view.from} ${view.to} ${Object.values(filter).join("\u0000")} ${listed} ${element("list").open}`;
  if (now === counted) return;
  counted = now;
  const found = left(), isAll = found.length === count;
  element("left").textContent = isAll ? `All ${count.toLocaleString("en")} drawn operations` : `${found.length.toLocaleString("en")} of ${count.toLocaleString("en")} drawn operations`;
  element("more").hidden = found.length <= listed;
  if (!element("list").open) return;
  element("rows").replaceChildren(...found.slice(0, listed).map((at) => {
    const row = made("tr"), end = returned(at);
    made("th", row, columns.index[at], { scope: "row", className: "number" });
    made("td", row, text("process", at), { className: "number" });
    made("td", row, text("f", at));
    made("td", row, text("key", at), { className: "whole" });
    made("td", row, text("outcome", at));
    made("td", row, seconds(started(at)), { className: "number" });
    made("td", row, end === null ? "never returned" : `${tookMs(at).toFixed(2)} ms`, { className: "number" });
    made("td", row, columns.value[at], { className: "text mono" });
    made("td", row, columns.offset[at], { className: "number" });
    made("td", row, text("node", at), { className: "number" });
    made("td", row, text("error", at), { className: "text mono" });
    const cell = made("td", row);
    if (anomalyOf.has(at)) made("a", cell, `${anomalyOf.get(at)}`, { href: `#anomaly-${anomalyOf.get(at)}` });
    return row;
  }));
}

// --- anchors ----------------------------------------------------------------------------------------------------------

function follow() {
  const [, what, number] = location.hash.match(/^#(mark|anomaly)-(\d+)$/) || [];
  if (!what) return;
  choose(Number(number));
  const anomaly = picture.anomalies.find((one) => one.number === Number(number));
  if (!anomaly) return;
  if (what === "anomaly") {
    const card = element(`anomaly-${number}`);
    for (let fold = card.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    card.scrollIntoView();
    card.focus({ preventScroll: true });
    return;
  }
  const moment = momentOf(anomaly);
  if (moment < view.from || moment > view.to) show(0, picture.duration);
  drawAll();
  const link = element(`mark-${number}`);
  link.scrollIntoView({ block: "center" });
  link.focus({ preventScroll: true });
}
window.addEventListener("hashchange", follow);
for (const link of document.querySelectorAll('a[href^="#mark-"], a[href^="#anomaly-"]')) {
  link.addEventListener("click", () => { if (link.hash === location.hash) follow(); });
}

redraws.push(drawAll, list);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new ResizeObserver(redraw).observe(canvas.parentElement);
drawAll();
list();
follow();
