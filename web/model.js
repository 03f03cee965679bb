// What the page knows about the run: the events of the console, added up. The views read it and draw.

export class Model {
  run = null;
  known = false; // the console has said whether something runs
  lanes = [];
  width = 20; // of a bin, in milliseconds
  bins = []; // [accepted, refused, failed, remaining, mean wait, mean hold, longest wait]
  bars = []; // [lane, key, begin, end, overlaps, request]
  pairs = [];
  sections = 0;
  overlaps = 0;
  leftOut = 0;
  version = 0; // grows with every change
  loads = 0; // grows when a load begins

  // on takes in an event of the stream.
  on(kind, data) {
    this.version++;
    this.known = true;
    switch (kind) {
      case "snapshot":
      case "begin":
        this.run = data.run ?? null;
        this.clear();
        if (data.frame) this.frame(data.frame);
        break;
      case "step":
        if (this.run) this.run.step = data;
        break;
      case "frame":
        this.frame(data);
        break;
      case "load":
      case "result":
      case "end":
        this.run = data;
        break;
    }
  }

  clear() {
    this.loads++;
    Object.assign(this, { bins: [], bars: [], pairs: [], sections: 0, overlaps: 0, leftOut: 0, width: 20 });
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
  }

  get running() {
    return this.run?.state === "running";
  }

  // result is that of the only mode, once there is one.
  get result() {
    return this.run?.results.find((r) => r.result)?.result ?? null;
  }

  totals() {
    let [accepted, refused, failed, remaining] = [0, 0, 0, null];
    for (const b of this.bins) {
      accepted += b[0];
      refused += b[1];
      failed += b[2];
      if (b[3] !== null) remaining = b[3];
    }
    return { accepted, refused, failed, remaining };
  }
}
