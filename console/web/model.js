// What the page knows about the run: the events of the console, added up. The views read it and draw.

// began is the first bin with an answer: before the load the load generator measures how busy the machine is.
export const began = (bins) => Math.max(0, bins.findIndex((b) => b[0] + b[1] + b[2] > 0));
// beganAt is the zero of the page's clock: the begin of that bin, in microseconds since the console began to count.
export const beganAt = ({ bins, width }) => began(bins) * width * 1000;

// leftAfter is the stock after a bin: what its last answer left, or else what there was and what the holds that ended in it gave back.
export const leftAfter = (b, before) => b[3] ?? (before === null ? null : before + (b[7] ?? 0) + (b[8] ?? 0));

export class Model {
  run = null;
  known = false; // the console has said whether something runs
  lanes = [];
  width = 20; // of a bin, in milliseconds
  bins = []; // [accepted, refused, failed, remaining, mean wait, mean hold, longest wait], and maybe the holds that were [cancelled, expired, void], and the tickets that [ended, their mean age, the oldest]
  bars = []; // [lane, key, begin, end, overlaps, request]; of tickets, from their reading to their end: [..., committed, [lane, id, won, state, deliveries] of some]
  pairs = [];
  sections = 0;
  overlaps = 0;
  leftOut = 0;
  version = 0; // grows with every change
  loads = 0; // grows when a load begins
  marks = []; // of replicas that went and came back, and of a stop: { at, replica, what }
  ended = -Infinity; // when this page was told of the end of a run, by its clock
  compared = null; // the last run of several modes

  // on takes in an event of the stream.
  on(kind, data) {
    this.version++;
    this.known = true;
    switch (kind) {
      case "snapshot":
      case "begin":
        this.run = data.run ?? null;
        this.compared = data.compared ?? null;
        this.clear();
        if (data.frame) this.frame(data.frame);
        break;
      case "step":
        if (this.run) this.run.step = data;
        break;
      case "frame":
        this.frame(data);
        break;
      case "end":
        this.ended = performance.now();
      // falls through
      case "load":
      case "result":
        this.run = data;
        break;
    }
  }

  clear() {
    this.loads++;
    Object.assign(this, { bins: [], bars: [], pairs: [], sections: 0, overlaps: 0, leftOut: 0, width: 20, marks: [] });
  }

  frame(f) {
    if (f.sections < this.sections || (f.bins.length === 0 && f.sections === 0)) this.clear(); // a load begins
    this.lanes = f.lanes;
    if (f.width !== this.width) this.bins = [];
    this.width = f.width;
    if (f.bins.length > 0) this.bins.splice(f.from, this.bins.length, ...f.bins);
    this.bars.push(...f.bars);
    if (this.bars.length > 4000) this.bars.splice(0, this.bars.length - 3000);
    this.pairs.push(...f.pairs);
    this.pairs.sort((a, b) => a.at - b.at); // the replicas report in any order
    this.sections = f.sections;
    this.overlaps = f.overlaps;
    this.leftOut = f.left_out;
    this.marks = f.marks ?? [];
  }

  get running() {
    return this.run?.state === "running";
  }

  // until is the model as it was when so many microseconds of the load had passed.
  until(at) {
    const bins = this.bins.slice(0, Math.max(1, Math.ceil(at / 1000 / this.width)));
    const bars = this.bars.filter((b) => b[2] <= at);
    return Object.assign(Object.create(this), { bins, bars, marks: this.marks.filter((m) => m.at <= at), at });
  }

  // silence is the longest time without an answer after a replica had gone, in seconds, and the replica.
  silence() {
    const longest = { seconds: 0, replica: "" };
    for (const m of this.marks.filter((x) => x.what === "gone")) {
      let still = 0;
      for (let i = Math.floor(m.at / 1000 / this.width); i < this.bins.length; i++) {
        still = this.bins[i][0] + this.bins[i][1] > 0 ? 0 : still + this.width / 1000;
        if (still > longest.seconds) Object.assign(longest, { seconds: still, replica: m.replica });
      }
    }
    return longest;
  }

  // result is that of the only mode, once there is one.
  get result() {
    return this.run?.results.find((r) => r.result)?.result ?? null;
  }

  totals() {
    let [accepted, refused, failed, remaining, cancelled, expired, voided, ended] = [0, 0, 0, null, 0, 0, 0, 0];
    for (const b of this.bins) {
      accepted += b[0];
      refused += b[1];
      failed += b[2];
      cancelled += b[7] ?? 0;
      expired += b[8] ?? 0;
      voided += b[9] ?? 0;
      ended += b[10] ?? 0;
      remaining = leftAfter(b, remaining);
    }
    return { accepted, refused, failed, remaining, cancelled, expired, voided, ended };
  }
}
