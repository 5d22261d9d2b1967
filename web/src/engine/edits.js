/** Durations as the reader slides them: op classes, link rate, latency. */

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
export function priceNs(price, latency, rate) {
  return price.fixed_ns + along(price.latency, latency) + along(price.slowness, 1 / rate);
}

/** @param {Pieces} pieces @param {number} at */
function along(pieces, at) {
  let found = pieces[0];
  for (const piece of pieces) if (piece[0] <= at) found = piece;
  return found[1] + (at - found[0]) * found[2];
}

/** The durations of a graph, slid; its columns are made once. */
export class Edits {
  /**
   * @param {import("./graph.js").Graph} graph
   * @param {Uint8Array} ofClass the class of each op, by which it is scaled
   * @param {number} classes how many there are
   */
  constructor(graph, ofClass, classes) {
    this.graph = graph;
    const { heap } = graph.engine;
    const { pack } = graph;
    this.ofClass = heap.put(ofClass);
    this.factor = heap.put(new Float64Array(classes).fill(1));
    /** @type {Price[]} */
    this.prices = pack.facts.prices ?? [];
    this.priceOf = pack.has("price_of")
      ? pack.column("price_of")
      : heap.put(new Int32Array(graph.ops).fill(-1));
    this.unpriced = heap.put(new Int32Array(graph.ops).fill(-1));
    this.price = heap.put(new Float64Array(this.prices.length));
    this.durations = heap.room(BigInt64Array, graph.ops);
  }

  /** Whether the file tells what communication takes on other links. */
  get priced() {
    return this.prices.length > 0;
  }

  /**
   * @param {{ factors?: number[], latency?: number, rate?: number }} slid factors by class; latency
   *   and rate of the links, times what they are
   * @returns {import("./heap.js").Column<BigInt64Array>} good until the next call
   */
  apply({ factors, latency = 1, rate = 1 }) {
    const { heap, calls } = this.graph.engine;
    this.factor.values.set(factors ?? new Array(this.factor.length).fill(1));
    const links = this.priced && (latency !== 1 || rate !== 1);
    if (links) this.price.values.set(this.prices.map((price) => priceNs(price, latency, rate)));
    const columns = [
      this.graph.durations, this.ofClass, this.factor, links ? this.priceOf : this.unpriced,
      this.price, this.graph.pack.column("scale_ppb"), this.durations,
    ];
    heap.withTable([this.graph.ops, ...columns], (at) => calls.edited_durations(at));
    return this.durations;
  }
}
