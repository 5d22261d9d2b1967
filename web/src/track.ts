/** A timeline in memory: one row for each op, and what finds rows quickly. */

import type { LaneRow, Numbers, TrackData } from "./contents";

/** When each op arrives, starts and ends, in ns. */
export interface Times {
  ready: Float64Array;
  start: Float64Array;
  end: Float64Array;
}

/** Other times for the same ops, from a replay. */
export interface Retiming {
  /** When the last op ends. */
  lastNs: number;
  /** Writes when ops run, and ops by lane in the order in which they start. */
  read(times: Times, order: Int32Array): void;
  path: Int32Array;
  slackOf(op: number): number;
}

export class Track implements Times {
  readonly kind: TrackData["kind"];
  readonly title: string;
  readonly lanes: LaneRow[];
  readonly names: string[];
  readonly columns: TrackData["columns"];
  readonly count: number;
  readonly depPtr: Int32Array;
  readonly depSrc: Int32Array;
  readonly onPath: Uint8Array;
  samplePtr?: Float64Array;
  /** Ops of each lane in the order in which they start; views of `#order`. */
  readonly laneOps: Int32Array[];
  /** The critical path, from its first op to its last. */
  path: ArrayLike<number>;
  /** How much later an op could end without a longer step; below 0 where nothing tells. */
  slackOf: (op: number) => number;
  readonly #order: Int32Array;
  readonly #listeners = new Set<() => void>();
  steps: TrackData["steps"];
  ready: Float64Array;
  start: Float64Array;
  end: Float64Array;
  span: number;
  #successors: { ptr: Int32Array; op: Int32Array } | null = null;
  #instances: Map<number, number[]> | null = null;

  constructor(readonly data: TrackData) {
    const columns = data.columns;
    this.kind = data.kind;
    this.title = data.title;
    this.lanes = data.lanes;
    this.names = data.names;
    this.columns = columns;
    this.count = columns.start.length;
    this.steps = data.steps;
    this.span = data.span_ns;
    this.start = new Float64Array(columns.start);
    this.end = added(this.start, columns.took, 1);
    this.ready = added(this.start, columns.waited, -1);
    [this.depPtr, this.depSrc] = dependencies(columns.deps, columns.back);
    this.onPath = new Uint8Array(this.count);
    this.path = data.path.op;
    for (const op of data.path.op) this.onPath[op] = 1;
    this.slackOf = (op) => columns.slack[op]!;
    [this.#order, this.laneOps] = byLane(columns.lane, data.lanes.length);
    this.#sort();
  }

  get ranks(): number[] {
    return [...new Set(this.lanes.map((lane) => lane.rank))].sort((a, b) => a - b);
  }

  retime({ lastNs, read, path, slackOf }: Retiming): void {
    read(this, this.#order);
    this.span = lastNs;
    this.slackOf = slackOf;
    for (let at = 0; at < this.path.length; at++) this.onPath[this.path[at]!] = 0;
    for (const op of path) this.onPath[op] = 1;
    this.path = path;
    this.#listeners.forEach((listener) => listener());
  }

  /** Told of other times. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  name(op: number): string {
    return this.text(this.columns.name[op]!);
  }

  text(index: number): string {
    return index < 0 ? "" : (this.names[index] ?? "");
  }

  rankOf(op: number): number {
    return this.lanes[this.columns.lane[op]!]!.rank;
  }

  waitsFor(op: number): number[] {
    return [...this.depSrc.subarray(this.depPtr[op], this.depPtr[op + 1])];
  }

  /** What waited for this op: the other way along the dependencies. */
  waitedForBy(op: number): number[] {
    this.#successors ??= reversed(this.depPtr, this.depSrc, this.count);
    return [...this.#successors.op.subarray(this.#successors.ptr[op], this.#successors.ptr[op + 1])];
  }

  /** The members of the collective that the op is of, itself among them. */
  members(op: number): number[] {
    const instance = this.columns.instance[op]!;
    if (instance < 0) return [];
    this.#instances ??= grouped(this.columns.instance);
    return this.#instances.get(instance) ?? [];
  }

  /** The same op in each step: alike in lane, name and layer, and as many such before it. */
  inEachStep(op: number): number[] {
    const { name, layer, step, lane } = this.columns;
    const alike = (at: number) => name[at] === name[op] && layer[at] === layer[op];
    const bySteps = new Map<number, number[]>();
    for (const at of this.laneOps[lane[op]!]!) {
      if (alike(at)) bySteps.set(step[at]!, [...(bySteps.get(step[at]!) ?? []), at]);
    }
    const place = bySteps.get(step[op]!)?.indexOf(op) ?? -1;
    return [...bySteps.values()].flatMap((ops) => (place in ops ? [ops[place]!] : []));
  }

  /** The first op of a lane that ends after a moment, as a place in `laneOps`. */
  firstAfter(lane: number, moment: number): number {
    const ops = this.laneOps[lane]!;
    let [low, high] = [0, ops.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[ops[middle]!]! > moment) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** The op of a lane that holds a moment, waiting included; -1: none. */
  at(lane: number, moment: number): number {
    const op = this.laneOps[lane]![this.firstAfter(lane, moment)];
    return op !== undefined && this.ready[op]! <= moment ? op : -1;
  }

  #sort(): void {
    const { start, end } = this;
    for (const ops of this.laneOps) {
      for (let i = 1; i < ops.length; i++) {
        if (start[ops[i]!]! < start[ops[i - 1]!]!) {
          ops.sort((a, b) => start[a]! - start[b]! || end[a]! - end[b]! || a - b);
          break;
        }
      }
    }
  }
}

function added(start: Float64Array, more: Numbers, sign: number): Float64Array {
  const found = new Float64Array(start.length);
  for (let op = 0; op < found.length; op++) found[op] = start[op]! + sign * more[op]!;
  return found;
}

function dependencies(counts: Numbers, back: Numbers): [Int32Array, Int32Array] {
  const ptr = new Int32Array(counts.length + 1);
  const src = new Int32Array(back.length);
  if (!back.length) return [ptr, src];
  for (let op = 0; op < counts.length; op++) {
    ptr[op + 1] = ptr[op]! + counts[op]!;
    for (let edge = ptr[op]!; edge < ptr[op + 1]!; edge++) src[edge] = op - back[edge]!;
  }
  return [ptr, src];
}

/** Ops by lane, and each lane's part of them. */
function byLane(lane: Numbers, lanes: number): [Int32Array, Int32Array[]] {
  const counts = new Int32Array(lanes);
  for (const each of lane) counts[each]!++;
  const order = new Int32Array(lane.length);
  let begin = 0;
  const found = Array.from(counts, (count) => order.subarray(begin, (begin += count)));
  counts.fill(0);
  for (let op = 0; op < lane.length; op++) found[lane[op]!]![counts[lane[op]!]!++] = op;
  return [order, found];
}

function reversed(ptr: Int32Array, src: Int32Array, count: number) {
  const back = new Int32Array(count + 1);
  for (const other of src) back[other + 1]!++;
  for (let op = 0; op < count; op++) back[op + 1]! += back[op]!;
  const next = back.slice();
  const found = new Int32Array(src.length);
  for (let op = 0; op < count; op++) {
    for (let edge = ptr[op]!; edge < ptr[op + 1]!; edge++) found[next[src[edge]!]!++] = op;
  }
  return { ptr: back, op: found };
}

function grouped(instance: Numbers): Map<number, number[]> {
  const found = new Map<number, number[]>();
  instance.forEach((each, op) => {
    if (each >= 0) found.set(each, [...(found.get(each) ?? []), op]);
  });
  return found;
}
