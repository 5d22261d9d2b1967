/** When each op runs: a graph's program, compiled once, and replays of it. */

import { EngineError } from "./engine.js";
import { Column } from "./heap.js";

/** @typedef {import("./heap.js").Column<Int32Array>} Int32 */
/** @typedef {import("./heap.js").Column<BigInt64Array>} Int64 */
/** @typedef {import("./heap.js").Column<Uint8Array>} UInt8 */

/**
 * What replay needs of a graph, as `paceline.graph.Graph` describes it.
 * @typedef {object} Structure
 * @property {Int32} lane
 * @property {Int32} instance
 * @property {Int64} depPtr
 * @property {Int32} depSrc
 * @property {UInt8} depKind
 * @property {UInt8} discipline one a lane
 * @property {Int32} drainOp
 * @property {Int32} drainLane
 * @property {Int32} priority
 */

/**
 * One row an op, good until the next replay.
 * @typedef {object} Timeline
 * @property {BigInt64Array} ready
 * @property {BigInt64Array} start
 * @property {BigInt64Array} end
 * @property {bigint} stepNs
 */

const FACTS = 6;
const COLUMNS = 9;

export class Replayer {
  /**
   * @param {import("./engine.js").Engine} engine
   * @param {Structure} structure
   * @param {boolean} [events] a program that lets ops share what they run on
   */
  constructor(engine, structure, events = false) {
    this.engine = engine;
    this.structure = structure;
    const { heap, calls } = engine;
    this.ops = structure.lane.length;
    this.program = heap.withTable(tableOf(structure), (at) => calls.program_new(at, Number(events)));
    const [, byPull, , cycle] = heap.readTable(FACTS, (at) => calls.program_facts(this.program, at));
    if (cycle) throw new EngineError(`${cycle} ops of this graph wait for each other in a ring`);
    this.byPull = byPull === 1;
    this.handle = calls.replayer_new(this.program);
  }

  /**
   * @param {Int64} durations in ns
   * @param {number} [sharing] the address of what ops share; see `conditions.js`
   * @returns {Timeline}
   */
  run(durations, sharing = 0) {
    const { calls } = this.engine;
    calls.replayer_run(this.handle, durations.address, this.structure.priority.address, sharing);
    return this.timeline();
  }

  /**
   * The step alone, faster where every lane runs in recorded order.
   * @param {Int64} durations
   * @param {number} [sharing]
   * @returns {bigint}
   */
  step(durations, sharing = 0) {
    const { heap, calls } = this.engine;
    const out = heap.room(BigInt64Array, 1);
    const priority = this.structure.priority.address;
    calls.replayer_step(this.handle, durations.address, priority, sharing, out.address);
    const step = out.values[0];
    out.release();
    if (step < 0n) throw stuck();
    return step;
  }

  /** Where ready, start and end of the last replay lie. */
  addresses() {
    const { heap, calls } = this.engine;
    return heap.readTable(COLUMNS, (at) => calls.replayer_columns(this.handle, at)).slice(0, 3);
  }

  /** The columns of the last replay. @returns {Timeline} */
  timeline() {
    const { heap, calls } = this.engine;
    const words = heap.readTable(COLUMNS, (at) => calls.replayer_columns(this.handle, at));
    const [ready, start, end] = words
      .slice(0, 3)
      .map((address) => new Column(heap, BigInt64Array, address, this.ops).values);
    const stepNs = new Column(heap, BigInt64Array, words[8], 1).values[0];
    if (stepNs < 0n) throw stuck();
    return { ready, start, end, stepNs };
  }

  /**
   * How much later each op of the last replay could end without a longer step.
   * @returns {Int64} it belongs to who asked
   */
  slack() {
    const out = /** @type {Int64} */ (this.engine.heap.room(BigInt64Array, this.ops));
    this.withWaits((waits) => this.engine.calls.replayer_slack(this.handle, waits, out.address));
    return out;
  }

  /** The critical path of the last replay, from its first op to its last. @returns {Int32Array} */
  path() {
    const out = /** @type {Int32} */ (this.engine.heap.room(Int32Array, this.ops));
    const count = this.withWaits((waits) => this.engine.calls.replayer_path(this.handle, waits, out.address));
    const found = out.values.slice(0, count).reverse();
    out.release();
    return found;
  }

  /**
   * @template R
   * @param {(waits: number) => R} call with the address of what ops wait for
   * @returns {R}
   */
  withWaits(call) {
    const { lane, instance, depPtr, depSrc, discipline } = this.structure;
    const sizes = [lane.length, depSrc.length, discipline.length];
    return this.engine.heap.withTable([...sizes, lane, instance, depPtr, depSrc], call);
  }

  release() {
    this.engine.calls.replayer_delete(this.handle);
    this.engine.calls.program_delete(this.program);
  }
}

function stuck() {
  return new EngineError("ops of this graph wait for each other for ever under these settings");
}

/** @param {Structure} s */
function tableOf(s) {
  const sizes = [s.lane.length, s.depSrc.length, s.discipline.length, s.drainOp.length];
  const columns = [s.lane, s.instance, s.depPtr, s.depSrc, s.depKind, s.discipline];
  return [...sizes, ...columns, s.drainOp, s.drainLane];
}
