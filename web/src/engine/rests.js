/** Work takes longer that begins after a rest of its lane, and for a while: native/wasm/durations.cpp. */

/** @import { Column } from "./heap.js" */

export class Rests {
  /**
   * @param {import("./engine.js").Engine} engine
   * @param {Column<Int32Array>} lane of each op
   * @param {Column<Uint8Array>} kind of each op
   * @param {number} lanes
   * @param {{ least_ns: number, factor: number, warm_ns: number }} rests
   */
  constructor(engine, lane, kind, lanes, rests) {
    this.engine = engine;
    this.columns = [lane, kind];
    this.sizes = [lane.length, lanes];
    const { heap } = engine;
    this.rests = heap.put(Float64Array.of(rests.least_ns, rests.factor, rests.warm_ns));
    this.ended = heap.room(BigInt64Array, lanes);
    this.worked = heap.room(BigInt64Array, lanes);
    this.durations = /** @type {Column<BigInt64Array>} */ (heap.room(BigInt64Array, lane.length));
  }

  /**
   * @param {Column<BigInt64Array>} priced
   * @param {number[]} times where ready, start and end of a replay of these lie
   * @returns {Column<BigInt64Array>} good until the next call
   */
  apply(priced, [, start, end]) {
    const words = [...this.sizes, ...this.columns, priced, start, end, this.rests, this.durations];
    const { heap, calls } = this.engine;
    heap.withTable(words, (at) => calls.rested_durations(at, this.ended.address, this.worked.address));
    return this.durations;
  }
}
