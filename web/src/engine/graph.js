/** A packed graph in the engine: its columns as typed arrays, its texts, and its replays. */

import { Conditions } from "./conditions.js";
import { Replayer } from "./replay.js";

/** @typedef {import("./heap.js").Column<any>} AnyColumn */

export class Graph {
  /**
   * @param {import("./engine.js").Engine} engine
   * @param {import("./pack.js").Pack} pack
   */
  constructor(engine, pack) {
    this.engine = engine;
    this.pack = pack;
    this.ops = pack.column("dur_ns").length;
    /** @type {Replayer | null} */
    this.made = null;
    /** @type {string[]} */
    this.names = pack.facts.names;
    /** @type {{ rank: number, device: number, kind: string, name: string }[]} */
    this.lanes = pack.facts.lanes;
    /** @type {import("./replay.js").Structure} */
    this.structure = {
      lane: pack.column("lane"),
      instance: pack.column("instance"),
      depPtr: pack.column("dep_ptr"),
      depSrc: pack.column("dep_src"),
      depKind: pack.column("dep_kind"),
      discipline: pack.column("discipline"),
      drainOp: pack.column("drain_op"),
      drainLane: pack.column("drain_lane"),
      priority: pack.column("priority"),
    };
  }

  /** A view of a column, good until the next call of the engine. @param {string} name */
  values(name) {
    return this.pack.column(name).values;
  }

  /** The durations that the file carries. */
  get durations() {
    return this.pack.column("dur_ns");
  }

  /** The recorded durations of an op in ns; none where it has no samples. @param {number} op */
  samplesOf(op) {
    if (!this.pack.has("sample_ptr")) return [];
    const ptr = this.values("sample_ptr");
    const over = this.values("sample_over_ns").slice(Number(ptr[op]), Number(ptr[op + 1]));
    const duration = this.durations.values[op];
    return Array.from(over, (/** @type {bigint} */ more) => Number(duration + more));
  }

  /** @param {number} op */
  nameOf(op) {
    return this.names[this.values("name")[op]];
  }

  /** What the graph's ops share; null where each takes its own time. */
  get conditions() {
    return Conditions.in(this.pack) ? new Conditions(this.engine, this.pack) : null;
  }

  /** Compiled once for all replays. */
  get replayer() {
    this.made ??= new Replayer(this.engine, this.structure, this.conditions !== null);
    return this.made;
  }
}

/**
 * When every op of a graph runs, under the conditions that its file carries.
 * @param {Graph} graph
 * @param {import("./replay.js").Int64} [durations] in ns; without, the graph's own
 * @returns {import("./replay.js").Timeline}
 */
export function replay(graph, durations = graph.durations) {
  const { conditions, replayer } = graph;
  if (!conditions) return replayer.run(durations);
  return conditions.during((sharing) => replayer.run(durations, sharing));
}

/**
 * The step alone, which is faster where every lane runs in recorded order.
 * @param {Graph} graph
 * @param {import("./replay.js").Int64} [durations]
 */
export function stepNs(graph, durations = graph.durations) {
  const { conditions, replayer } = graph;
  if (!conditions) return replayer.step(durations);
  return conditions.during((sharing) => replayer.step(durations, sharing));
}
