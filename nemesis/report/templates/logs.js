// Small multiples on the same axis of time: each log, and each object that clients used.
"use strict";
const SMALL_LANE = 17, SMALL_PLOT = 96, OBJECTS_MAX = 24;
const colourOf = (replica) => picture.replicaColours[Math.max(picture.replicas.indexOf(replica), 0) % picture.replicaColours.length];
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];
const dashOf = (replica) => DASHES[Math.max(picture.replicas.indexOf(replica), 0) % DASHES.length];

function small(holder, name, says) {
  const figure = made("figure", holder, undefined, { className: "small" });
  made("figcaption", figure, name);
  const frame = made("div", figure, undefined, { className: "frame" });
  const drawing = made("canvas", frame);
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", says);
  const note = made("div", frame, undefined, { className: "tip", hidden: true });
  const one = { canvas: drawing, sheet: null };
  drawing.addEventListener("pointermove", (event) => {
    const near = ({ x0, x1, y0, y1 }) => event.offsetX >= x0 && event.offsetX <= x1 && event.offsetY >= y0 && event.offsetY <= y1;
    const hit = one.sheet && one.sheet.hits.findLast(near);
    note.hidden = !hit;
    if (!hit) return;
    note.textContent = hit.words;
    note.style.left = `${Math.max(Math.min(event.offsetX, one.sheet.width - note.offsetWidth - 4), 0)}px`;
    note.style.top = `${event.offsetY + 14}px`;
  });
  drawing.addEventListener("pointerleave", () => { note.hidden = true; });
  return one;
}

function scale(sheet, top, low, high) {
  const step = nice(high - low || 1, 3), floor = Math.floor(low / step) * step, ceiling = Math.max(Math.ceil(high / step) * step, floor + step);
  const y = (value) => top + SMALL_PLOT - ((value - floor) / (ceiling - floor)) * SMALL_PLOT;
  for (let value = floor; value <= ceiling + step / 2; value += step) {
    rule(sheet, LEFT, y(value), sheet.width - RIGHT, y(value), sheet.grid);
    write(sheet, value.toLocaleString("en"), LEFT - 8, y(value), "right", sheet.soft);
  }
  times(sheet, top + SMALL_PLOT, top);
  return y;
}

function dot(sheet, x, y, colour, words) {
  sheet.pen.fillStyle = colour;
  sheet.pen.beginPath(); sheet.pen.arc(x, y, 3.2, 0, 7); sheet.pen.fill();
  sheet.hits.push({ x0: x - 5, x1: x + 5, y0: y - 5, y1: y + 5, words });
}

// Between two looks that are much further apart than usual nobody looked: no line is drawn there.
function usualGap(moments) {
  const gaps = moments.slice(1).map((time, at) => time - moments[at]).sort((a, b) => a - b);
  return gaps.length ? gaps[gaps.length >> 1] : 0;
}

function drawLog(one, log) {
  const replicas = [...new Set([...log.reigns, ...log.inSync, ...log.cuts].map(([replica]) => replica).concat([...log.highWatermarks, ...log.logEnds].map(({ replica }) => replica)))].sort((a, b) => a - b);
  const sheet = one.sheet = paper(one.canvas, replicas.length * SMALL_LANE + SMALL_PLOT + AXIS + 14);
  replicas.forEach((replica, at) => {
    const top = at * SMALL_LANE;
    write(sheet, `replica ${replica}`, LEFT - 8, top + 8, "right");
    clipped(sheet, top, SMALL_LANE, () => {
      for (const [, start, end] of log.inSync.filter(([of]) => of === replica)) bar(sheet, start, end, top + 13, 3, sheet.soft, `replica ${replica} is in sync\n${seconds(start)} to ${until(end)}`);
      for (const [, epoch, , start, end] of log.reigns.filter(([of]) => of === replica)) {
        const drawn = bar(sheet, start, end, top, 13, picture.leader, `replica ${replica} leads, epoch ${epoch}\n${seconds(start)} to ${until(end)}`);
        if (drawn && drawn.width > sheet.pen.measureText(String(epoch)).width + 8) write(sheet, String(epoch), drawn.x + 4, top + 7, "left", "#ffffff");
      }
    });
  });
  const offsets = [log.acknowledged, ...log.highWatermarks, ...log.logEnds].flatMap((series) => series.offsets).concat(log.cuts.flatMap(([, , from, to]) => (from === null ? [to] : [from, to])));
  const top = replicas.length * SMALL_LANE + 8, y = scale(sheet, top, 0, Math.max(1, ...offsets));
  clipped(sheet, top - 4, SMALL_PLOT + 8, () => {
    sheet.pen.fillStyle = picture.outcomes[0].colour;
    log.acknowledged.times.forEach((time, at) => sheet.pen.fillRect(across(sheet, time) - 1, y(log.acknowledged.offsets[at]) - 1, 2, 2));
    for (const { replica, times: moments, offsets: marks } of log.highWatermarks) {
      sheet.pen.strokeStyle = colourOf(replica); sheet.pen.lineWidth = 1.8; sheet.pen.setLineDash(dashOf(replica));
      const usual = usualGap(moments);
      sheet.pen.beginPath();
      moments.forEach((time, at) => {
        const x = across(sheet, time);
        if (at && time - moments[at - 1] <= 4 * usual) sheet.pen.lineTo(x, y(marks[at])); else sheet.pen.moveTo(x - 1, y(marks[at]));
        sheet.pen.lineTo(x, y(marks[at]));
        sheet.hits.push({ x0: x - 4, x1: x + 4, y0: y(marks[at]) - 4, y1: y(marks[at]) + 4, words: `high watermark of replica ${replica}: ${marks[at]}\n${seconds(time)}` });
      });
      sheet.pen.stroke(); sheet.pen.setLineDash([]);
    }
    for (const { replica, times: moments, offsets: ends } of log.logEnds) {
      moments.forEach((time, at) => dot(sheet, across(sheet, time), y(ends[at]), colourOf(replica), `log end offset of replica ${replica}: ${ends[at]}\n${seconds(time)}`));
    }
    for (const [replica, time, from, to] of log.cuts) {
      const x = across(sheet, time), colour = picture.kinds.find((kind) => kind.symbol === "cross").colour;
      if (from !== null) rule(sheet, x, y(from), x, y(to), colour, 2.5);
      symbol(sheet, "cross", x, y(to), colour);
      sheet.hits.push({ x0: x - 6, x1: x + 6, y0: Math.min(y(from ?? to), y(to)) - 6, y1: y(to) + 6, words: `replica ${replica} truncates${from === null ? "" : ` from ${from}`} to ${to}\n${seconds(time)}` });
    }
  });
}

function drawObject(one, places) {
  const numbers = places.filter((at) => typeof columns.value[at] === "number" && text("outcome", at) === "ok");
  const names = picture.outcomes.map(({ words }) => words);
  const sheet = one.sheet = paper(one.canvas, names.length * SMALL_LANE + (numbers.length ? SMALL_PLOT : 0) + AXIS + 14);
  names.forEach((name, at) => write(sheet, name, LEFT - 8, at * SMALL_LANE + 8, "right"));
  clipped(sheet, 0, names.length * SMALL_LANE, () => {
    for (const at of places) {
      const lane = names.indexOf(text("outcome", at));
      sheet.pen.globalAlpha = passes[at] ? 0.75 : 0.12;
      bar(sheet, started(at), returned(at), lane * SMALL_LANE + 2, 12, anomalyOf.has(at) ? picture.anomaly : picture.outcomes[lane].colour, told(at));
    }
    sheet.pen.globalAlpha = 1;
  });
  const top = names.length * SMALL_LANE + 8;
  if (!numbers.length) { times(sheet, top, 0); return; }
  const values = numbers.map((at) => columns.value[at]), y = scale(sheet, top, Math.min(...values), Math.max(...values));
  clipped(sheet, top - 4, SMALL_PLOT + 8, () => {
    for (const at of numbers.filter((at) => passes[at])) {
      dot(sheet, across(sheet, returned(at)), y(columns.value[at]), anomalyOf.has(at) ? picture.anomaly : picture.outcomes[0].colour, told(at));
    }
  });
}

const ofLogs = new Set(["append", "poll", "final-read"]);
function objects() {
  const found = new Map();
  for (let at = 0; at < count; at++) {
    if (ofLogs.has(text("f", at)) || text("key", at) === "") continue;
    if (!found.has(text("key", at))) found.set(text("key", at), []);
    found.get(text("key", at)).push(at);
  }
  const weight = ([, places]) => (places.some((at) => anomalyOf.has(at)) ? count : 0) + places.length;
  return [...found].sort((a, b) => weight(b) - weight(a) || a[0].localeCompare(b[0], "en", { numeric: true }));
}

function multiples(id, entries, says, draw) {
  const folded = element(id);
  if (!folded) return;
  const drawn = entries.map(([name, content]) => [small(folded.querySelector(".multiples"), name, says(name)), content]);
  const all = () => { if (folded.open) for (const [one, content] of drawn) draw(one, content); };
  folded.addEventListener("toggle", all);
  new ResizeObserver(all).observe(folded);
  redraws.push(all);
  all();
}

multiples("each-log", picture.logs.map((log) => [log.name, log]), (name) => `Leaders, ISR, high watermarks and log end offsets of ${name} over time`, drawLog);
const used = objects();
if (element("each-object")) {
  element("each-object").hidden = used.length === 0;
  element("objects-left").textContent = used.length > OBJECTS_MAX ? `The first ${OBJECTS_MAX} of ${used.length.toLocaleString("en")}: those with anomalies, then the most used.` : "";
  multiples("each-object", used.slice(0, OBJECTS_MAX), (name) => `Operations on ${name} over time by outcome, and the values that they told`, drawObject);
}
