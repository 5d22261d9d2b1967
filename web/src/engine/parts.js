/** How long a step of a replay takes, and of what the last one consists: native/wasm/parts.cpp. */

/** @import { Column } from "./heap.js" */

/**
 * @typedef {object} Steps
 * @property {Column<Int32Array>} lane of each op
 * @property {Column<Uint8Array>} kind of each op
 * @property {Column<Int32Array>} step of each op: which of the steps, counted from 0
 * @property {Column<Int32Array>} rank of each lane: which of the ranks, counted from 0
 * @property {Column<Int32Array>} update ops between which steps that run into one another are timed
 * @property {number} ranks
 * @property {number} steps
 * @property {number} period steps after which the job repeats itself
 */

/**
 * In ns; the parts are those of a mean rank in the last period, and sum to that.
 * @typedef {object} Told
 * @property {number} stepNs
 * @property {number} lastNs the last end
 * @property {{ compute: number, hidden: number, exposed: number, other: number }} parts computing
 *   alone, computing while bytes move, bytes and waiting alone, the rest
 */

const TOLD = 6;

export class StepParts {
  /**
   * @param {import("./engine.js").Engine} engine
   * @param {Steps} s columns that stay where they are
   */
  constructor(engine, s) {
    this.engine = engine;
    this.ops = s.lane.length;
    const { heap, calls } = engine;
    const sizes = [this.ops, s.rank.length, s.ranks, s.steps, s.update.length, s.period];
    const words = [...sizes, s.lane, s.kind, s.step, s.rank, s.update];
    this.handle = heap.withTable(words, (at) => calls.step_parts_new(at));
    this.out = heap.put(new Float64Array(TOLD));
  }

  /**
   * @param {number[]} times where ready, start and end lie
   * @returns {Told}
   */
  tell(times) {
    const { heap, calls } = this.engine;
    heap.withTable(times, (at) => calls.step_parts_told(this.handle, at, this.out.address));
    const [stepNs, lastNs, compute, hidden, exposed, other] = this.out.values;
    return { stepNs, lastNs, parts: { compute, hidden, exposed, other } };
  }

  /** Ops by lane, in the order in which they started when `tell` was last asked; a view. */
  order() {
    const at = this.engine.calls.step_parts_order(this.handle) >>> 0;
    return new Int32Array(this.engine.heap.memory.buffer, at, this.ops);
  }
}
