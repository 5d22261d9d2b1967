/**
 * What to draw of a timeline for a window of time and a number of pixels: as many intervals as can
 * be seen, however many ops there are.
 */

import { Column } from "./heap.js";

/** The kind of what waits; ops have the numbers of `OpKind` (`facts.words.kind`). */
export const WAITING = 15;

/** How many kinds there are at most. */
export const KINDS = 16;

/**
 * Spans on lanes, no two of a lane at once.
 * @typedef {object} Spans
 * @property {number} count
 * @property {Column<Int32Array>} lane
 * @property {Column<Uint8Array>} kind
 * @property {Column<BigInt64Array>} start
 * @property {Column<BigInt64Array>} end
 * @property {Column<BigInt64Array> | null} busy how much of each is work; null: all of it
 * @property {Column<Int32Array> | null} ops how many each stands for; null: one
 * @property {Column<Int32Array> | null} ofOp whose each is, where each is an op's
 */

/**
 * What to draw, lanes as they were asked for; good until the next call of the engine.
 * @typedef {object} Drawn
 * @property {number} rows
 * @property {Int32Array} lane
 * @property {Uint8Array} kind that of most of its work
 * @property {BigInt64Array} start
 * @property {BigInt64Array} end
 * @property {BigInt64Array} busy how much of it is work; the rest are gaps
 * @property {Int32Array} ops how many it stands for
 * @property {Int32Array} span the only one, or -1 where several are merged
 */

const DRAWN = 8;

export class Levels {
  /**
   * @param {import("./engine.js").Engine} engine
   * @param {Spans} spans they belong to the levels from now on
   * @param {number} lanes
   */
  constructor(engine, spans, lanes) {
    this.engine = engine;
    this.spans = spans;
    const { heap, calls } = engine;
    const { count, lane, kind, start, end, busy, ops } = spans;
    const words = [count, lanes, lane, kind, start, end, busy, ops];
    this.handle = heap.withTable(words, (at) => calls.levels_new(at));
  }

  /**
   * @param {bigint} fromNs
   * @param {bigint} toNs
   * @param {number} pixels
   * @param {Int32Array} lanes
   * @returns {Drawn}
   */
  draw(fromNs, toNs, pixels, lanes) {
    const { heap, calls } = this.engine;
    const words = this.inWindow(fromNs, toNs, pixels, lanes, (window) =>
      heap.readTable(DRAWN, (at) => calls.levels_draw(this.handle, window, at)),
    );
    const [rows, ...at] = words;
    return {
      rows,
      lane: new Column(heap, Int32Array, at[0], rows).values,
      kind: new Column(heap, Uint8Array, at[1], rows).values,
      start: new Column(heap, BigInt64Array, at[2], rows).values,
      end: new Column(heap, BigInt64Array, at[3], rows).values,
      busy: new Column(heap, BigInt64Array, at[4], rows).values,
      ops: new Column(heap, Int32Array, at[5], rows).values,
      span: new Column(heap, Int32Array, at[6], rows).values,
    };
  }

  /**
   * Work in ns by kind within a window.
   * @param {bigint} fromNs
   * @param {bigint} toNs
   * @param {Int32Array} lanes
   * @returns {BigInt64Array}
   */
  sums(fromNs, toNs, lanes) {
    const { heap, calls } = this.engine;
    const out = heap.room(BigInt64Array, KINDS);
    this.inWindow(fromNs, toNs, 1, lanes, (at) => calls.levels_sums(this.handle, at, out.address));
    const found = out.copy();
    out.release();
    return found;
  }

  /** The op of a span that `draw` named. @param {number} span */
  opOf(span) {
    return span < 0 || !this.spans.ofOp ? -1 : this.spans.ofOp.values[span];
  }

  /**
   * @template R
   * @param {bigint} fromNs
   * @param {bigint} toNs
   * @param {number} pixels
   * @param {Int32Array} lanes
   * @param {(address: number) => R} call
   * @returns {R}
   */
  inWindow(fromNs, toNs, pixels, lanes, call) {
    const { heap } = this.engine;
    const rows = heap.put(lanes);
    const borders = heap.put(BigInt64Array.of(fromNs, toNs));
    try {
      return heap.withTable([lanes.length, pixels, rows, borders], call);
    } finally {
      rows.release();
      borders.release();
    }
  }

  release() {
    this.engine.calls.levels_delete(this.handle);
    for (const column of Object.values(this.spans)) {
      if (column instanceof Column) column.release();
    }
  }
}

/**
 * The levels of a graph's last replay: each op's work, and what it waited for before it.
 * @param {import("./graph.js").Graph} graph
 */
export function levelsOf(graph) {
  const { heap, calls } = graph.engine;
  const most = 2 * graph.ops;
  const lane = heap.room(Int32Array, most);
  const kind = heap.room(Uint8Array, most);
  const [start, end] = [0, 1].map(() => heap.room(BigInt64Array, most));
  const ofOp = heap.room(Int32Array, most);
  const out = [lane, kind, start, end, ofOp].map((column) => column.address);
  const columns = [graph.structure.lane, graph.pack.column("kind"), ...graph.replayer.addresses()];
  const count = heap.withTable([graph.ops, WAITING, ...columns], (at) => calls.spans_of(at, ...out));
  const spans = { count, lane, kind, start, end, busy: null, ops: null, ofOp };
  return new Levels(graph.engine, spans, graph.lanes.length);
}

/**
 * The levels that a file carries in place of ops, where these are too many for a file.
 * @param {import("./engine.js").Engine} engine
 * @param {import("./pack.js").Pack} pack
 */
export function levelsIn(engine, pack) {
  const [lane, kind, start, end, busy, ops] = ["lane", "kind", "start", "lasts", "idle", "ops"].map(
    (name) => pack.taken(`level_${name}`),
  );
  engine.calls.levels_unpack(start.address, end.address, busy.address, lane.length);
  const spans = { count: lane.length, lane, kind, start, end, busy, ops, ofOp: null };
  return new Levels(engine, spans, pack.facts.lanes.length);
}
