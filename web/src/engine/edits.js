/** Durations as the reader slides them: op classes, link rate, latency. */

/** @import { Column } from "./heap.js" */

/**
 * Points of a function that is straight between them: `[at, ns, slope]`, ascending in `at`; the
 * first one's `at` is 0.
 * @typedef {[number, number, number][]} Pieces
 */

/**
 * What one distinct communication takes, as `paceline.report.page.prices` tells it: what no link
 * changes, a function of the links' latency (1 is what the file was priced with), and one of how
 * much slower the links are.
 * @typedef {{ fixed_ns: number, latency: Pieces, slowness: Pieces, low: number, high: number }} Price
 */

/**
 * @param {Price} price
 * @param {number} latency times what the file was priced with
 * @param {number} rate of links, times what the file was priced with
 */
function priceNs(price, latency, rate) {
  return price.fixed_ns + along(price.latency, latency) + along(price.slowness, 1 / rate);
}

/** @param {Pieces} pieces @param {number} at */
function along(pieces, at) {
  let found = pieces[0];
  for (const piece of pieces) if (piece[0] <= at) found = piece;
  return found[1] + (at - found[0]) * found[2];
}

/** How many levers slide ops at most: the bits of `touched`. */
const LEVERS = 8;

/**
 * Columns of ops, in the engine's memory.
 * @typedef {object} Slidable
 * @property {Column<BigInt64Array>} durations where nothing is slid
 * @property {Column<Uint8Array>} touched by bit: the levers that slide each op
 * @property {Column<Int32Array>} priceOf the price that each op takes its time from, or -1
 * @property {Column<BigInt64Array>} scale in parts per billion of that price
 */

/** The durations of a graph, slid. */
export class Edits {
  /**
   * @param {import("./engine.js").Engine} engine
   * @param {Slidable} columns
   * @param {Price[]} prices
   */
  constructor(engine, columns, prices) {
    this.engine = engine;
    this.columns = columns;
    this.prices = prices;
    const { heap } = engine;
    this.factor = heap.put(new Float64Array(LEVERS));
    this.price = heap.put(new Float64Array(prices.length));
    this.durations = heap.room(BigInt64Array, columns.durations.length);
  }

  /**
   * @param {{ factors?: number[], latency?: number, rate?: number }} slid factors by lever; latency
   *   and rate of the links, times what they are
   * @returns {Column<BigInt64Array>} good until the next call
   */
  apply({ factors = [], latency = 1, rate = 1 }) {
    const { durations, touched, priceOf, scale } = this.columns;
    this.factor.values.fill(1).set(factors);
    this.price.values.set(this.prices.map((price) => priceNs(price, latency, rate)));
    const words = [durations.length, durations, touched, this.factor, priceOf, this.price, scale, this.durations];
    this.engine.heap.withTable(words, (at) => this.engine.calls.slid_durations(at));
    return this.durations;
  }
}
