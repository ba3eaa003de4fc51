"use strict";
const report = JSON.parse(document.getElementById("results").textContent);
const colors = ["#2563eb", "#0f9d76", "#d9480f", "#7c3aed"];

function element(tag, parent, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  parent.appendChild(made);
  return made;
}

function bytes(size) {
  if (size === null || size === undefined) return "";
  let unit = 0;
  while (size >= 1024 && size % 1024 === 0 && unit < 3) { size /= 1024; unit++; }
  return size + ["", "K", "M", "G"][unit];
}

function number(value) {
  if (value === null || value === undefined) return "";
  return value >= 1000 ? value.toFixed(0) : value >= 1 ? value.toPrecision(4) : value.toPrecision(3);
}

function about() {
  const parent = document.getElementById("about");
  const wrong = report.results.some(result => result.wrong > 0 || result.outside > 0);
  const unchecked = report.results.every(result => result.wrong === null);
  element("code", element("p", parent), report.command.join(" "));
  const machine = report.machine;
  element("p", parent, `nccl4j ${report.version}, Java ${machine.java} · ${machine.processor}, ` +
    `${machine.cores} cores, ${(machine.memoryBytes / 2 ** 30).toFixed(0)} GiB · ${machine.os}`);
  element("span", parent, wrong ? "wrong results" : unchecked ? "not checked" : "all results right",
    "verdict " + (wrong ? "wrong" : "right"));
}

function decade(value) {
  const exponent = Math.log10(value);
  return Math.abs(exponent - Math.round(exponent)) < 1e-9;
}

/* Rows of one plot: same collective, type, operator and root. */
function groups() {
  const found = new Map();
  for (const result of report.results) {
    const key = [result.collective, result.type, result.op, result.root].join("|");
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(result);
  }
  return found.values();
}

function series(results, field) {
  const sizes = [...new Set(results.map(result => result.bytes))]
    .filter(size => size > 0).sort((a, b) => a - b);
  const lines = [];
  const add = (label, pick) => {
    const values = sizes.map(size => {
      for (const result of results) {
        const value = result.bytes === size ? pick(result) : undefined;
        if (value > 0) return value;
      }
      return null;
    });
    if (values.some(value => value !== null)) lines.push({label, values});
  };
  add("out of place", result => result.inPlace ? undefined : result[field]);
  add("in place", result => result.inPlace ? result[field] : undefined);
  const names = new Set(results.flatMap(result => result.references.map(one => one.name)));
  for (const name of names) {
    add(name, result => {
      const reference = result.references.find(one => one.name === name);
      if (!reference) return undefined;
      return field === "timeUs" ? reference.timeUs : result.busBw / reference.ratio;
    });
  }
  return {sizes, lines};
}

function plot(box, results, field, title, unit) {
  const {sizes, lines} = series(results, field);
  const options = {
    legend: {live: false},
    title,
    width: Math.max(360, box.clientWidth - 24),
    height: 320,
    cursor: {drag: {x: false, y: false}},
    scales: {x: {time: false, distr: 3, log: 2}, y: {distr: 3, log: 10}},
    axes: [
      {
        label: "size (B)",
        splits: () => sizes.filter((size, i) => i % Math.ceil(sizes.length / 9) === 0),
        filter: (u, splits) => splits,
        values: (u, splits) => splits.map(bytes),
      },
      {
        label: unit,
        size: 64,
        grid: {filter: (u, splits) => splits.map(value => decade(value) ? value : null)},
        values: (u, splits) => splits.map(value => value === null ? "" : String(+value.toPrecision(2))),
      },
    ],
    series: [
      {label: "size", value: (u, value) => bytes(value)},
      ...lines.map((line, i) => ({
        label: line.label,
        stroke: colors[i],
        width: 2,
        dash: i < 2 ? undefined : [6, 4],
        points: {show: true, size: 6},
        value: (u, value) => value === null ? "" : number(value) + " " + unit,
        spanGaps: true,
      })),
    ],
  };
  const made = new uPlot(options, [sizes, ...lines.map(line => line.values)], box);
  window.addEventListener("resize", () =>
    made.setSize({width: Math.max(360, box.clientWidth - 24), height: 320}));
}

function table(parent, results) {
  const details = element("details", parent);
  element("summary", details, "All figures");
  const made = element("table", details, undefined, "figures");
  const head = element("tr", made);
  for (const title of ["size (B)", "in place", "time (us)", "algbw (GB/s)", "busbw (GB/s)", "#wrong",
    "#outside",
    "algorithm", "protocol", "reference (us)", "reference / ours"]) element("th", head, title);
  for (const result of results) {
    const row = element("tr", made);
    for (const value of [result.bytes, result.inPlace ? "yes" : "no", number(result.timeUs),
      number(result.algBw), number(result.busBw)]) element("td", row, value);
    for (const found of [result.wrong, result.outside]) {
      element("td", row, found === null ? "N/A" : found, found > 0 ? "bad" : "");
    }
    element("td", row, result.algorithm || "");
    element("td", row, result.protocol || "");
    element("td", row, result.references.map(one => `${one.name} ${number(one.timeUs)}`).join(", "));
    element("td", row, result.references.map(one => one.ratio.toFixed(2)).join(", "));
  }
}

about();
const parent = document.getElementById("sections");
for (const results of groups()) {
  const one = results[0];
  const root = one.root >= 0 ? `, root ${one.root}` : "";
  const op = one.op === "none" ? "" : `, ${one.op}`;
  element("h2", parent, `${one.collective} · ${one.type}${op}${root} · ${one.ranks} ${one.mode}`);
  const plots = element("div", parent, undefined, "plots");
  const kinds = [["timeUs", "Time", "us"], ["busBw", "Bus bandwidth", "GB/s"]]
    .filter(([field]) => series(results, field).lines.length > 0);
  // All boxes before any plot: a plot takes the width that its box then has.
  const boxes = kinds.map(() => element("div", plots, undefined, "plot"));
  kinds.forEach(([field, title, unit], i) => plot(boxes[i], results, field, title, unit));
  table(parent, results);
}
