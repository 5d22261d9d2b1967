/** What the page asks of the engine. `engine/` is the same C++ as Python's, as WebAssembly. */

import engineBase64 from "virtual:engine";
import type { Typed } from "./contents";
import { type Column, Conditions, type Engine as Loaded, loadEngine, Pack, Replayer } from "./engine/index.js";

export const roomFor = (count: number): Times => ({
  ready: new Float64Array(count),
  start: new Float64Array(count),
  end: new Float64Array(count),
});

/** A graph's structure; `depPtr` has one entry more than there are ops. */
export interface Structure {
  lane: Int32Array;
  instance: Int32Array;
  depPtr: Int32Array;
  depSrc: Int32Array;
  depKind: Uint8Array;
  discipline: Uint8Array;
  drainOp: Int32Array;
  drainLane: Int32Array;
  priority: Int32Array;
}

/** When each op arrives, starts and ends, in ns. */
export interface Times {
  ready: Float64Array;
  start: Float64Array;
  end: Float64Array;
}

export interface Program {
  /** A replay, written into `into`: arrays as long as there are ops. */
  replay(durations: Float64Array, into: Times): Times;
}

/** What ops share while they run; no columns where they share nothing. */
export interface Shares {
  columns: Record<string, Typed>;
  loaded: boolean;
}

export interface Engine {
  compile(structure: Structure, shares: Shares): Program;
}

/** The engine, or an error that says why there is none. */
export async function openEngine(): Promise<Engine> {
  if (typeof WebAssembly === "undefined") {
    throw new Error(
      "this browser runs no WebAssembly, so the sliders rest; what was recorded is all here. " +
        "Open the file in a current Firefox, Chrome, Edge or Safari",
    );
  }
  if (!engineBase64) {
    throw new Error("this page was built without its engine: run `make wasm page` and write it anew");
  }
  const loaded = await loadEngine(Uint8Array.from(atob(engineBase64), (c) => c.charCodeAt(0)));
  return { compile: (structure, shares) => new Compiled(loaded, structure, shares) };
}

/** A program in the engine's memory. */
class Compiled implements Program {
  readonly #replayer: Replayer;
  readonly #durations: Column<BigInt64Array>;
  readonly #numbers: Column<Float64Array>;
  readonly #conditions: Conditions | null;

  constructor(private readonly engine: Loaded, structure: Structure, shares: Shares) {
    const { heap } = engine;
    const count = structure.lane.length;
    const ptr = BigInt64Array.from(structure.depPtr, BigInt);
    const columns = Object.entries(shares.columns).map(([name, each]) => [name, heap.put(each)] as const);
    this.#conditions = columns.length
      ? new Conditions(engine, new Pack({ loaded: shares.loaded }, new Map(columns)))
      : null;
    this.#replayer = new Replayer(engine, {
      lane: heap.put(structure.lane),
      instance: heap.put(structure.instance),
      depPtr: heap.put(ptr),
      depSrc: heap.put(structure.depSrc),
      depKind: heap.put(structure.depKind),
      discipline: heap.put(structure.discipline),
      drainOp: heap.put(structure.drainOp),
      drainLane: heap.put(structure.drainLane),
      priority: heap.put(structure.priority),
    }, this.#conditions !== null);
    this.#durations = heap.room(BigInt64Array, count) as Column<BigInt64Array>;
    this.#numbers = heap.room(Float64Array, count) as Column<Float64Array>;
  }

  replay(durations: Float64Array, into: Times): Times {
    const { calls } = this.engine;
    const numbers = this.#numbers;
    numbers.values.set(durations);
    calls.times_of(numbers.address, numbers.length, this.#durations.address);
    const found = this.#conditions
      ? this.#conditions.during((sharing) => this.#replayer.run(this.#durations, sharing))
      : this.#replayer.run(this.#durations);
    for (const name of ["ready", "start", "end"] as const) {
      calls.numbers_of(found[name].byteOffset, numbers.length, numbers.address);
      into[name].set(numbers.values);
    }
    return into;
  }
}
