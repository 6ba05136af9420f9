"use strict";
/* Draws each chart when it scrolls into view, fills each table when it is opened, and handles the keyboard. */
const charts = JSON.parse(document.getElementById("charts").textContent);
const CONFIG = {responsive: true, displaylogo: false, toImageButtonOptions: {format: "svg"}};
const ROWS_AT_ONCE = 200, MORE_ROWS = 1000, MIN_STROKE_PARTS = 900;
const NARROW = 500, PRINT_WIDTH = 680, PRINT_HEIGHT = 300, TALL = 460;

/* ---- charts ---- */

/* Converts each stroke [begin, end, y, text] of a trace to three points and a gap; the middle point makes the hover
   text reachable. Strokes shorter than `visible` are drawn with that length until the reader zooms in, but at most to
   the next stroke of the row, so that many short strokes keep their share of the color. next(y, begin): its begin. */
function expandStrokes(trace, visible, next) {
  Object.assign(trace, {x: [], y: [], hovertext: []});
  trace.strokes.forEach(([begin, end, y, text]) => {
    const shown = Math.max(end, Math.min(begin + visible, next(y, begin)));
    trace.x.push(begin, (begin + shown) / 2, shown, null);
    trace.y.push(y, y, y, null);
    trace.hovertext.push(text, text, text, "");
  });
}

/* Returns next(y, begin) over the strokes of traces with the same line width: nested strokes are thinner. */
function nextStroke(traces) {
  const rows = new Map();
  traces.flatMap(trace => trace.strokes).sort((a, b) => b[0] - a[0]).forEach(([begin, , y]) => {
    if (!rows.has(y)) rows.set(y, {at: new Map(), last: Infinity});
    const row = rows.get(y);
    if (!row.at.has(begin)) row.at.set(begin, row.last);
    row.last = begin;
  });
  return (y, begin) => rows.get(y).at.get(begin);
}

function expandAllStrokes(traces, span) {
  const drawn = traces.filter(trace => trace.strokes);
  const longest = drawn.flatMap(trace => trace.strokes).reduce((most, stroke) => Math.max(most, stroke[1]), 0);
  drawn.forEach(trace => expandStrokes(trace, (span || longest) / MIN_STROKE_PARTS,
    nextStroke(drawn.filter(other => other.line.width === trace.line.width))));
}

function expandVisibleStrokes(plot) {
  const [low, high] = plot.layout.xaxis.range, traces = charts[plot.dataset.chart].figure.data;
  expandAllStrokes(traces, high - low);
  Plotly.restyle(plot, {x: traces.map(trace => trace.x)});
}

/* Breaks a name into lines of at most n characters, at spaces. */
function wrap(name, n) {
  const lines = [];
  name.replaceAll("<br>", " ").split(" ").forEach(word => {
    const longer = lines.length ? lines[lines.length - 1] + " " + word : word;
    if (lines.length && longer.length <= n) lines[lines.length - 1] = longer;
    else lines.push(word);
  });
  return lines;
}

/* A narrow plot: names of bars on several short lines, and one line for each entry of the legend. */
function makeNarrow({data, layout}) {
  const yaxis = layout.yaxis || {}, entries = data.filter(trace => trace.showlegend !== false).length;
  if (layout.showlegend) layout.height += 20 * Math.max(0, entries - 2);
  Object.assign(layout.margin, {l: 20, r: 14});
  if (yaxis.type !== "category") return;
  const names = [...new Set(data.flatMap(trace => trace.y))].map(String), lines = names.map(name => wrap(name, 15));
  const ticktext = lines.map(parts => parts.join("<br>"));
  Object.assign(yaxis, {tickmode: "array", tickvals: names, ticktext, tickfont: {size: 11}});
  layout.height += 14 * names.length * (Math.max(1, ...lines.map(parts => parts.length)) - 1);
}

function draw(plot) {
  const chart = charts[plot.dataset.chart];
  if (plot.dataset.drawn) return;
  plot.dataset.drawn = "yes";
  expandAllStrokes(chart.figure.data);
  if (plot.clientWidth < NARROW) makeNarrow(chart.figure);
  chart.figure.data.filter(trace => trace.type === "heatmap" && plot.clientWidth < 190 + 30 * trace.x.length)
    .forEach(trace => delete trace.texttemplate); // the numbers do not fit into the cells
  if (chart.chooser) choose(plot, chart);
  Plotly.newPlot(plot, chart.figure.data, chart.figure.layout, CONFIG);
  if (chart.figure.data.some(trace => trace.strokes))
    plot.on("plotly_relayout", change => {
      if (Object.keys(change).some(key => key.startsWith("xaxis"))) expandVisibleStrokes(plot);
    });
}

const seen = new IntersectionObserver(entries => entries.forEach(entry => {
  if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
}), {rootMargin: "300px"});

function plots() { return [...document.querySelectorAll(".plot")]; }

/* Before printing, draws all charts at the width of the paper. */
function beginPrint() {
  plots().forEach(plot => {
    draw(plot);
    plot.height = plot.height || plot.layout.height;
    setSize(plot, PRINT_WIDTH, plot.height > TALL ? plot.height : Math.min(plot.height, PRINT_HEIGHT));
  });
}
function endPrint() { plots().forEach(plot => setSize(plot, null, plot.height)); }

function setSize(plot, width, height) {
  plot.style.minHeight = height + "px"; // the drawing of plotly does not set the height of its container
  Plotly.relayout(plot, {width, height, autosize: width === null});
}

/* ---- keyboard: left and right select a point of a line, up and down select a line ---- */

function flat(list) { return list.flatMap(one => Array.isArray(one) ? one : [one]); }

/* The points of a trace that have a hover text: [[{curveNumber, pointNumber}, text]]. */
function points(plot, curve) {
  const trace = plot.data[curve], hover = trace.hovertext || [];
  if (trace.type === "heatmap")
    return hover.flatMap((row, i) => row.map((text, j) =>
      [{curveNumber: curve, xval: trace.x[j], yval: trace.y[i]}, text]));
  const all = hover.map((text, i) => [{curveNumber: curve, pointNumber: i}, text]);
  return all.filter(([point, text], i) => text && text !== hover[i - 1]);
}

/* Puts a text into the live region of the page, which screen readers read aloud. */
function announce(text) { document.getElementById("announcement").textContent = text.replaceAll("<br>", ", "); }

function moveSelection(plot, event) {
  const step = {ArrowRight: 1, ArrowLeft: -1}[event.key] || 0, curveStep = {ArrowDown: 1, ArrowUp: -1}[event.key] || 0;
  if (event.key === "Escape") { Plotly.Fx.unhover(plot); return; }
  if (!step && !curveStep) return;
  event.preventDefault();
  draw(plot);
  const at = plot.at || {curve: 0, point: -1}, n = plot.data.length;
  at.curve = (at.curve + curveStep + n) % n;
  const known = points(plot, at.curve);
  if (!known.length) { plot.at = at; return; }
  if (curveStep) at.point = Math.max(0, Math.min(at.point, known.length - 1));
  else at.point = (at.point + step + known.length) % known.length;
  plot.at = at;
  const [point, text] = known[at.point];
  Plotly.Fx.hover(plot, [point]);
  announce((plot.data[at.curve].name || "") + ": " + text);
}

/* ---- tables ---- */

function show(value) {
  if (value === null || value === undefined) return "-";
  if (typeof value === "number")
    return value.toLocaleString("en", Number.isInteger(value) ? {} : {maximumSignificantDigits: 5});
  if (typeof value === "boolean") return value ? "yes" : "no";
  return String(value);
}

function compare(a, b) {
  const none = value => value === null || value === undefined;
  if (none(a) || none(b)) return none(a) - none(b);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", {numeric: true});
}

function make(name, text, attributes) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  Object.entries(attributes || {}).forEach(([key, value]) => element.setAttribute(key, value));
  return element;
}

/* A filter is a list of conditions separated by commas: a text that some cell of the row contains, or column>=4. */
const CONDITION = /^(.+?)(<=|>=|!=|<|>|=)(.+)$/;
const OPERATORS = {"<": c => c < 0, "<=": c => c <= 0, ">": c => c > 0, ">=": c => c >= 0,
  "=": c => c === 0, "!=": c => c !== 0};

function matches(condition, row, columns) {
  const parts = condition.match(CONDITION), column = parts ? columns.indexOf(parts[1]) : -1;
  if (column < 0) return row.some(value => show(value).toLowerCase().includes(condition.toLowerCase()));
  const value = row[column], wanted = typeof value === "number" ? Number(parts[3]) : parts[3];
  return value !== null && OPERATORS[parts[2]](compare(value, wanted));
}

/* The rows that match all conditions of the filter, sorted by the chosen column; null comes last. */
function select(chart, state) {
  const conditions = state.filter.trim().split(/[,;]\s*/).filter(Boolean);
  const rows = chart.rows.filter(row => conditions.every(condition => matches(condition, row, chart.columns)));
  if (state.column >= 0) rows.sort((a, b) => {
    const none = (a[state.column] === null) - (b[state.column] === null);
    return none || state.direction * compare(a[state.column], b[state.column]);
  });
  return rows;
}

/* The header row. A click on a column sorts by the column; a second click reverses the order. */
function makeHeaderRow(chart, state, render) {
  const line = make("tr"), heads = chart.columns.map(() => make("th", undefined, {scope: "col"}));
  chart.columns.forEach((name, column) => {
    const button = make("button", name, {type: "button"});
    button.addEventListener("click", () => {
      state.direction = state.column === column ? -state.direction : 1;
      state.column = column;
      heads.forEach(head => head.removeAttribute("aria-sort"));
      heads[column].setAttribute("aria-sort", state.direction > 0 ? "ascending" : "descending");
      render();
    });
    heads[column].append(button);
  });
  line.append(...heads);
  return line;
}

function makeRow(row) {
  const line = make("tr");
  line.append(...row.map(value => make("td", show(value), typeof value === "number" ? {class: "number"} : {})));
  return line;
}

function fill(details) {
  if (details.dataset.filled) return;
  details.dataset.filled = "yes";
  const chart = charts[details.dataset.chart], state = {filter: "", column: -1, direction: 1, shown: ROWS_AT_ONCE};
  const label = make("label", "Filter "), count = make("span", "", {role: "status"});
  const input = make("input", undefined, {type: "search", placeholder: "text, or column>=4, separated by commas"});
  const region = {class: "scroll", role: "region", tabindex: "0", "aria-label": "Values of " + chart.title};
  const box = make("div", undefined, region);
  const table = make("table"), head = make("thead"), body = make("tbody");
  const more = make("button", "", {class: "more", type: "button"});
  function render() {
    const rows = select(chart, state);
    body.replaceChildren(...rows.slice(0, state.shown).map(makeRow));
    count.textContent = rows.length + " of " + chart.rows.length + " rows";
    more.hidden = rows.length <= state.shown;
    more.textContent = "Show " + Math.min(MORE_ROWS, rows.length - state.shown) + " more rows";
    if (chart.redraw) chart.redraw(rows);
  }
  input.addEventListener("input", () => { state.filter = input.value; state.shown = ROWS_AT_ONCE; render(); });
  more.addEventListener("click", () => { state.shown += MORE_ROWS; render(); });
  head.append(makeHeaderRow(chart, state, render));
  label.append(input); table.append(head, body); box.append(table); details.append(label, count, box, more);
  render();
}

/* ---- scatter plot of a study: two chosen columns, colored by a third ---- */

function choose(plot, chart) {
  const bar = document.querySelector(`.chooser[data-chart="${plot.dataset.chart}"]`), chosen = chart.chooser;
  const choices = [["x", chosen.numbers], ["y", chosen.numbers], ["color", ["", ...chart.columns]]];
  choices.forEach(([key, names]) => {
    const label = make("label", key === "color" ? "Color by " : key + " axis "), list = make("select");
    list.append(...names.map(name => make("option", name, {value: name})));
    list.value = chosen[key];
    list.addEventListener("change", () => { chosen[key] = list.value; chart.redraw(); });
    label.append(list); bar.append(label);
  });
  let rows = chart.rows;
  chart.redraw = wanted => {
    rows = wanted || rows;
    setScatter(chart, rows);
    Plotly.react(plot, chart.figure.data, chart.figure.layout, CONFIG);
  };
  setScatter(chart, rows);
}

function setScatter(chart, rows) {
  const axis = name => ({title: {text: name}, automargin: true}), data = scatter(chart, rows);
  chart.figure.data = data;
  Object.assign(chart.figure.layout,
    {xaxis: axis(chart.chooser.x), yaxis: axis(chart.chooser.y), showlegend: data.length > 1});
}

const COLORS = ["#3d7fc1", "#d9822b", "#2f9e62", "#a56bc4", "#c2508f", "#1f9aa8", "#8c6d3f", "#6b7f2a", "#7d8a99"];

function scatter(chart, rows) {
  const at = name => chart.columns.indexOf(name), {x, y, color} = chart.chooser, groups = new Map();
  rows.filter(row => show(row[at(x)]) !== "-" && show(row[at(y)]) !== "-").forEach(row => {
    const key = color ? show(row[at(color)]) : "";
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  });
  const few = [...groups].slice(0, 30);
  return few.map(([name, mine], i) => ({
    type: "scatter", mode: "markers", name: name || y, hoverinfo: "text",
    x: mine.map(row => row[at(x)]), y: mine.map(row => row[at(y)]),
    hovertext: mine.map(row => chart.columns.map((column, j) => column + ": " + show(row[j])).join("<br>")),
    marker: {size: 8, color: COLORS[i % COLORS.length]}}));
}

/* ---- initialization ---- */

plots().forEach(plot => {
  seen.observe(plot);
  plot.addEventListener("keydown", event => moveSelection(plot, event));
});
document.querySelectorAll("details.values").forEach(details => {
  if (details.open) fill(details);
  details.addEventListener("toggle", () => { if (details.open) fill(details); });
});
addEventListener("beforeprint", beginPrint);
addEventListener("afterprint", endPrint);
