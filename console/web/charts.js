import { css } from "./dom.js";
import { number } from "./i18n.js";
import { began, leftAfter } from "./model.js";

/* global uPlot */

const height = 168;

// Chart is one uPlot with the colours of the theme. It is made again when they change, or when its box does.
class Chart {
  constructor(box, make) {
    this.box = box;
    this.make = make;
    this.data = null;
    this.marks = [];
    new ResizeObserver(() => {
      if (this.plot && box.clientWidth > 0 && box.clientWidth !== this.plot.width) this.plot.setSize({ width: box.clientWidth, height });
    }).observe(box);
  }

  draw(data, marks = this.marks) {
    this.data = data;
    this.marks = marks;
    if (this.box.clientWidth === 0) return;
    const made = () => {
      const o = this.make();
      return { ...o, hooks: { ...o.hooks, draw: [(u) => this.drawMarks(u)] }, width: this.box.clientWidth, height };
    };
    if (!this.plot) this.plot = new uPlot(made(), data, this.box);
    else this.plot.setData(data);
  }

  // drawMarks draws an upright line with a word for each mark.
  drawMarks(u) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.font = `${12 * devicePixelRatio}px ${getComputedStyle(document.body).fontFamily}`;
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    ctx.setLineDash([]);
    this.marks.forEach((m, i) => {
      const x = Math.min(u.valToPos(m.x, "x", true), bbox.left + bbox.width - 1), wide = ctx.measureText(m.text).width, left = x + wide + 6 > bbox.left + bbox.width;
      ctx.strokeStyle = ctx.fillStyle = css(m.what === "back" ? "--good" : m.what === "stop" ? "--ink-soft" : "--bad");
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(m.text, left ? x - wide - 5 : x + 5, bbox.top + (i % 3) * 15 * devicePixelRatio);
    });
    ctx.restore();
  }

  again() {
    this.plot?.destroy();
    this.plot = null;
    if (this.data) this.draw(this.data);
  }
}

const font = () => `12px ${getComputedStyle(document.body).fontFamily}`;

// labels writes ticks with the decimals of the distance between them: two ticks never have the same label.
const labels = (unit) => (_, ticks, axis, space, distance) => {
  const decimals = String(Number(distance.toPrecision(3))).split(".")[1]?.length ?? 0;
  return ticks.map((v) => number(v, decimals) + unit);
};

// splits are the splits of a time axis: those of uPlot, and the end of the data.
export const splits = (u, i, from, to, step) => {
  const all = [];
  for (let n = 0; n * step < to - step * 0.6; n++) all.push(n * step);
  return [...all, to];
};

// timeLabels writes the end to three digits, and the others as labels does.
const timeLabels = (u, ticks, ...rest) => [...labels(" s")(u, ticks.slice(0, -1), ...rest), `${number(ticks.at(-1), Math.max(0, 2 - Math.floor(Math.log10(ticks.at(-1)))))} s`];

function axes() {
  const axis = {
    stroke: css("--ink-soft"), font: font(), ticks: { show: false }, grid: { stroke: css("--line"), width: 1 },
  };
  return [
    { ...axis, grid: { show: false }, space: 64, size: 28, splits, values: timeLabels },
    { ...axis, size: 60, space: 34, values: labels("") },
  ];
}

function options(series, more = {}) {
  return {
    padding: [8, 22, 0, 0], legend: { show: false }, cursor: { show: false }, select: { show: false },
    scales: { x: { time: false, range: (_, __, max) => [0, max || 1] }, y: { range: (_, min, max) => [Math.min(0, min ?? 0), Math.max(1, max ?? 1) * 1.06] } },
    axes: axes(), series: [{}, ...series], ...more,
  };
}

const line = (color, more = {}) => ({ stroke: css(color), width: 2, points: { show: false }, spanGaps: false, ...more });

// stock falls; what lies below zero is shaded.
export const stockChart = (box) => new Chart(box, () => options([line("--accent", { fill: css("--accent-wash") }), line("--bad", { dash: [4, 4], width: 1.5 }), line("--warm")], {
  hooks: {
    drawClear: [(u) => {
      const zero = u.valToPos(0, "y", true);
      const bottom = u.bbox.top + u.bbox.height;
      if (zero >= bottom) return;
      u.ctx.save();
      u.ctx.fillStyle = css("--bad-wash");
      u.ctx.fillRect(u.bbox.left, zero, u.bbox.width, bottom - zero);
      u.ctx.restore();
    }],
  },
}));

// orders against the stock there was: the gap above it is filled. Of tickets also those that ended, and those in flight.
export const ordersChart = (box) => new Chart(box, () => options([
  line("--ink", {}),
  line("--ink-soft", { dash: [4, 4], width: 1.5 }),
  { stroke: "transparent", width: 0, points: { show: false } },
  line("--accent"), line("--warm", { fill: css("--warm-wash") }),
], { bands: [{ series: [1, 3], fill: css("--bad-fill"), dir: -1 }] }));

export const rateChart = (box) => new Chart(box, () => options([
  line("--accent", { fill: css("--accent-wash") }), line("--ink-soft", { dash: [3, 3], width: 1.5 }),
]));

export const lockChart = (box) => new Chart(box, () => options([
  line("--ink-faint", { width: 1 }), line("--warm"), line("--accent"),
]));

// ageChart shows for how long tickets were in flight.
export const ageChart = (box) => new Chart(box, () => options([line("--ink-faint", { width: 1 }), line("--warm")]));

// endsChart shows when holds end, and how.
export const endsChart = (box) => new Chart(box, () => options([
  line("--ink"), line("--ink-soft", { dash: [3, 3], width: 1.5 }), line("--warm"), line("--ink-faint", { width: 1 }),
]));

const maxPoints = 160;

// series turns the bins into the data of the charts; initial is null for a baseline, which has no stock. final is the stock after the
// run, if it is known; holds says that units are held before they are sold: those are neither in stock nor sold. The answers tell of it in the order of their arrival, so the last one need not be the one that left least. Many bins are
// put together for the rates, which would only flicker.
export function series(model, initial, final, holds = false, tickets = false) {
  const { width } = model;
  const bins = model.bins.slice(began(model.bins));
  const xs = [], left = [], should = [], sold = [], was = [], capped = [], ended = [];
  let [total, remaining, done] = [0, initial, 0];
  xs.push(0); ended.push(0); left.push(initial); should.push(initial); sold.push(0); was.push(initial); capped.push(0);
  bins.forEach((b, i) => {
    if (total < initial && total + b[0] > initial) { // the red begins where the curve passes the stock, not at the end of the bin before
      xs.push(((i + (initial - total) / b[0]) * width) / 1000);
      left.push(undefined); // the line goes on
      should.push(initial === null ? null : 0);
      sold.push(initial);
      ended.push(undefined);
      was.push(initial);
      capped.push(initial);
    }
    total += b[0];
    remaining = leftAfter(b, remaining);
    xs.push(((i + 1) * width) / 1000);
    left.push(remaining);
    should.push(initial === null ? null : initial - total);
    sold.push(total);
    ended.push(done += b[10] ?? 0);
    was.push(initial);
    capped.push(initial === null ? total : Math.min(total, initial));
  });
  if (initial !== null && final !== undefined) left[left.length - 1] = final;
  const flight = ended.map((n, i) => (tickets && n !== undefined ? Math.max(0, sold[i] - n) : undefined));
  const held = left.map((n, i) => (holds && n !== undefined ? Math.max(0, should[i] - n) : undefined));
  const group = Math.max(1, Math.ceil(bins.length / maxPoints), Math.ceil(40 / width));
  const times = [], accepted = [], refused = [], wait = [], hold = [], longest = [], oldest = [], ages = [], ends = [[], [], [], []];
  for (let i = 0; i < bins.length; i += group) {
    const part = bins.slice(i, i + group);
    const sum = (k) => part.reduce((s, b) => s + b[k], 0);
    const locks = part.filter((b) => b[4] !== null);
    const mean = (k) => (locks.length ? locks.reduce((s, b) => s + b[k], 0) / locks.length / 1000 : null);
    const seconds = (part.length * width) / 1000;
    times.push(((i + part.length) * width) / 1000);
    ends.forEach((line, k) => line.push(part.reduce((s, b) => s + (b[k === 0 ? 0 : 6 + k] ?? 0), 0)));
    accepted.push(sum(0) / seconds);
    refused.push(sum(1) / seconds);
    wait.push(mean(4));
    hold.push(mean(5));
    const done = part.filter((b) => b[10] > 0);
    oldest.push(done.length ? Math.max(...done.map((b) => b[12])) / 1000 : null);
    ages.push(done.length ? done.reduce((s, b) => s + b[10] * b[11], 0) / done.reduce((s, b) => s + b[10], 0) / 1000 : null);
    longest.push(locks.length ? Math.max(...locks.map((b) => b[6])) / 1000 : null);
  }
  const locks = wait.some((v) => v !== null);
  gaps([wait, hold, longest, oldest, ages], Math.ceil(1000 / (group * width)));
  return {
    stock: [xs, left, should, held], orders: [xs, sold, was, capped, tickets ? ended : [...flight], flight], age: [times, oldest, ages], rate: [times, accepted, refused], lock: [times, longest, wait, hold],
    locks, ends: [times, ...ends.map((line) => line.map((n, i) => n / (times[i] - (times[i - 1] ?? 0))))],
    moments: times.map((at, i) => [at, ...ends.map((line) => line[i]), held[xs.findIndex((x) => x >= at)]]).filter((row) => row.slice(1, 5).some((n) => n > 0)),
  };
}

// gaps leaves a hole in the lines where nothing was measured for so many points; over a shorter pause the line goes on.
function gaps(lines, long) {
  for (const values of lines) {
    for (let i = 0; i < values.length; i++) {
      let end = i;
      while (end < values.length && values[end] === null) end++;
      if (end > i && end - i < long) values.fill(undefined, i, end);
      i = Math.max(i, end - 1);
    }
  }
}
