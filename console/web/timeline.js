import { css } from "./dom.js";
import { number, t } from "./i18n.js";

const laneGap = 10, rowHeight = 11, rowGap = 3, maxRows = 8, left = 84, bottom = 26, top = 6;

// Timeline draws critical sections: a lane for each replica, a bar for each section, hatched where two of a key overlap. Of tickets it draws a bar
// for those that were read together, in two parts, and lines from where and when some of them were won. It shows the newest until somebody moves it.
export class Timeline {
  bars = [];
  lanes = [];
  from = 0;
  to = 1000;
  follow = true;
  began = 0;

  constructor(canvas) {
    this.canvas = canvas;
    new ResizeObserver(() => this.draw()).observe(canvas);
    canvas.addEventListener("keydown", (e) => this.key(e));
    canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    let grabbed = null;
    canvas.addEventListener("pointerdown", (e) => {
      grabbed = { x: e.clientX, from: this.from, to: this.to };
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", (e) => {
      if (!grabbed) return;
      const by = ((grabbed.x - e.clientX) / this.plotWidth()) * (grabbed.to - grabbed.from);
      this.show(grabbed.from + by, grabbed.to + by);
    });
    canvas.addEventListener("pointerup", () => (grabbed = null));
    canvas.addEventListener("pointercancel", () => (grabbed = null));
  }

  set(bars, lanes, began) {
    this.began = began; // where the clock of the page begins
    this.bars = bars;
    this.lanes = lanes;
    if (this.follow) this.newest();
  }

  // newest shows the last sections, as many as can be told apart.
  newest() {
    if (this.bars.length === 0) return;
    const last = this.bars.slice(this.bars[0][7] ? -12 : -Math.max(24, Math.round(this.plotWidth() / 9)));
    const to = Math.max(...last.map((b) => b[3]));
    this.to = to + 1;
    this.from = Math.min(...last.flatMap((b) => [b[2], ...(b[7] ?? []).map((life) => life[2])]));
    if (this.to - this.from < 200) this.from = this.to - 200;
  }

  // show moves to a span of time, in microseconds, and stays there.
  show(from, to) {
    this.follow = false;
    const span = Math.max(50, to - from);
    this.from = Math.max(-span / 4, from);
    this.to = this.from + span;
    this.draw();
  }

  all() {
    if (this.bars.length === 0) return;
    const ends = this.bars.map((b) => b[3]);
    this.show(Math.min(...this.bars.map((b) => b[2])), Math.max(...ends));
  }

  around(at, by) {
    const span = Math.max(400, Math.min(20000, by * 12));
    this.show(at - span / 2, at + span / 2);
  }

  move(share) {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }

  zoom(factor, at = 0.5) {
    const span = this.to - this.from, middle = this.from + span * at;
    this.show(middle - span * at * factor, middle + span * (1 - at) * factor);
  }

  key(e) {
    const does = {
      ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2), "+": () => this.zoom(0.6), "=": () => this.zoom(0.6),
      "-": () => this.zoom(1.7), Home: () => this.all(),
    }[e.key];
    if (!does) return;
    e.preventDefault();
    does();
  }

  wheel(e) {
    if (!e.ctrlKey && !e.shiftKey && Math.abs(e.deltaX) <= Math.abs(e.deltaY)) return; // the page scrolls
    e.preventDefault();
    if (e.ctrlKey) this.zoom(e.deltaY > 0 ? 1.2 : 0.83, (e.offsetX - left) / this.plotWidth());
    else this.move(((e.deltaX || e.deltaY) / this.plotWidth()) * 1.5);
  }

  plotWidth() {
    return Math.max(60, this.canvas.clientWidth - left - 8);
  }

  // rows puts the bars of a lane under each other where they overlap, so that none hides another.
  rows(bars) {
    const ends = [];
    return bars.map((b) => {
      let row = ends.findIndex((end) => end <= b[2]);
      if (row < 0) row = ends.length < maxRows ? ends.length : ends.indexOf(Math.min(...ends));
      ends[row] = b[3];
      return row;
    });
  }

  draw() {
    const { canvas } = this;
    const width = canvas.clientWidth;
    if (width === 0) return;
    const visible = this.bars.filter((b) => b[3] >= this.from && b[2] <= this.to).sort((a, b) => a[2] - b[2]);
    const lanes = this.lanes.map((_, i) => {
      const bars = visible.filter((b) => b[0] === i);
      const rows = this.rows(bars);
      return { bars, rows, height: Math.max(1, ...rows.map((r) => r + 1)) * (rowHeight + rowGap) };
    });
    // A lane keeps the height it has had, so that the page does not jump.
    this.heights = lanes.map((l, i) => Math.max(l.height, 3 * (rowHeight + rowGap), this.heights?.[i] ?? 0));
    const height = top + this.heights.reduce((s, h) => s + h + laneGap, 0) + bottom;
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.style.height = `${height}px`;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    g.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    this.grid(g, width, height);
    const x = (time) => left + ((time - this.from) / (this.to - this.from)) * this.plotWidth();
    const shared = sharedSpans(visible.filter((b) => !b[7]));
    this.wins(g, lanes, x);
    let y = top;
    lanes.forEach((lane, i) => {
      g.fillStyle = css("--ink-soft");
      g.textBaseline = "middle";
      g.textAlign = "left";
      g.fillText(t("replica {n}", { n: this.lanes[i] }), 0, y + this.heights[i] / 2);
      this.lane(g, lane, x, y, shared);
      y += this.heights[i] + laneGap;
    });
  }

  // wins draws a line from each win, beside the name of its replica, to the bar of those that were read with it.
  wins(g, lanes, x) {
    const begins = this.heights.map((_, i) => this.heights.slice(0, i).reduce((y, h) => y + h + laneGap, top));
    g.save();
    g.beginPath();
    g.rect(left, 0, this.plotWidth() + 4, 10000);
    g.clip();
    g.strokeStyle = g.fillStyle = css("--warm");
    lanes.forEach((lane, i) => lane.bars.forEach((b, k) => (b[7] ?? []).forEach(([by, , won]) => {
      const at = begins[by] + this.heights[by] / 2;
      g.beginPath();
      g.arc(x(won), at, 2, 0, 7);
      g.fill();
      g.beginPath();
      g.moveTo(x(won), at);
      g.lineTo(x(b[2]), begins[i] + lane.rows[k] * (rowHeight + rowGap) + rowHeight / 2);
      g.stroke();
    })));
    g.restore();
  }

  lane(g, lane, x, y, shared) {
    g.save();
    g.beginPath();
    g.rect(left, 0, this.plotWidth() + 4, 10000);
    g.clip();
    const hatch = hatching(g);
    lane.bars.forEach((b, k) => {
      const at = y + lane.rows[k] * (rowHeight + rowGap);
      const [from, to] = [x(b[2]), Math.max(x(b[3]), x(b[2]) + 1.5)];
      g.fillStyle = css(b[4] ? "--bar-bad" : "--bar");
      box(g, from, at, to - from, rowHeight);
      g.fillStyle = css("--accent");
      if (b[7]) box(g, x(b[6]), at, Math.max(to - x(b[6]), 1.5), rowHeight);
      for (const [begin, end] of shared.get(b[1]) ?? []) {
        if (end <= b[2] || begin >= b[3]) continue;
        const [f, u] = [x(Math.max(begin, b[2])), x(Math.min(end, b[3]))];
        g.fillStyle = css("--bad");
        box(g, f, at, Math.max(u - f, 1.5), rowHeight);
        g.fillStyle = hatch;
        g.fillRect(f, at, Math.max(u - f, 1.5), rowHeight);
      }
    });
    g.restore();
  }

  grid(g, width, height) {
    const span = this.to - this.from;
    const step = niceStep(span / Math.max(3, this.plotWidth() / 110));
    g.strokeStyle = css("--line");
    g.fillStyle = css("--ink-soft");
    g.lineWidth = 1;
    g.textBaseline = "alphabetic";
    g.textAlign = "center";
    const from = this.from - this.began;
    for (let at = Math.max(0, Math.ceil(from / step) * step); at <= from + span; at += step) {
      const x = Math.round(left + ((at - from) / span) * this.plotWidth()) + 0.5;
      g.beginPath();
      g.moveTo(x, 0);
      g.lineTo(x, height - bottom + 4);
      g.stroke();
      const label = timeLabel(at, step);
      if (x > left + 16 && x + g.measureText(label).width / 2 < width) g.fillText(label, x, height - 8);
    }
  }
}

function box(g, x, y, w, h) {
  g.beginPath();
  g.roundRect(x, y, w, h, Math.min(2.5, w / 2));
  g.fill();
}

// sharedSpans finds, for each key, the spans in which two sections or more are inside.
function sharedSpans(bars) {
  const edges = new Map();
  for (const [, key, begin, end] of bars) {
    if (!edges.has(key)) edges.set(key, []);
    edges.get(key).push([begin, 1], [end, -1]);
  }
  const spans = new Map();
  for (const [key, list] of edges) {
    list.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const found = [];
    let inside = 0, since = 0;
    for (const [at, change] of list) {
      if (inside < 2 && inside + change >= 2) since = at;
      if (inside >= 2 && inside + change < 2 && at > since) found.push([since, at]);
      inside += change;
    }
    spans.set(key, found);
  }
  return spans;
}

let hatchKept = null;

function hatching(g) {
  const color = css("--bad-ink");
  if (hatchKept?.color === color) return hatchKept.pattern;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const p = tile.getContext("2d");
  p.strokeStyle = color;
  p.lineWidth = 1.3;
  p.beginPath();
  p.moveTo(-1, 7);
  p.lineTo(7, -1);
  p.moveTo(-1, 1);
  p.lineTo(1, -1);
  p.moveTo(5, 7);
  p.lineTo(7, 5);
  p.stroke();
  hatchKept = { color, pattern: g.createPattern(tile, "repeat") };
  return hatchKept.pattern;
}

function niceStep(wanted) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, wanted)));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= wanted);
}

// timeLabel writes a time in microseconds, as finely as the steps between such times are: two ticks never have the same label.
function timeLabel(us, step) {
  if (step >= 1e5) return `${number(us / 1e6, 1)} s`;
  if (step >= 100 || us >= 10000) return `${number(us / 1e3, step < 10 ? 3 : step < 100 ? 2 : 1)} ms`;
  return `${number(us)} µs`;
}
