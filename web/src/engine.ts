/** What the page asks of the engine. `engine/` is the same C++ as Python's, as WebAssembly. */

import engineBase64 from "virtual:engine";
import { type Column, type Engine as Loaded, loadEngine, Replayer } from "./engine/index.js";

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

export interface Engine {
  compile(structure: Structure): Program;
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
  return { compile: (structure) => new Compiled(loaded, structure) };
}

/** A program in the engine's memory. */
class Compiled implements Program {
  readonly #replayer: Replayer;
  readonly #durations: Column<BigInt64Array>;

  constructor(private readonly engine: Loaded, structure: Structure) {
    const { heap } = engine;
    const count = structure.lane.length;
    const ptr = BigInt64Array.from(structure.depPtr, BigInt);
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
    });
    this.#durations = heap.room(BigInt64Array, count) as Column<BigInt64Array>;
  }

  replay(durations: Float64Array, into: Times): Times {
    write(this.#words(this.#durations.address), durations);
    const found = this.#replayer.run(this.#durations);
    for (const name of ["ready", "start", "end"] as const) {
      read(this.#words(found[name].byteOffset), into[name]);
    }
    return into;
  }

  #words(address: number): Uint32Array {
    return new Uint32Array(this.engine.heap.memory.buffer, address, 2 * this.#durations.length);
  }
}

const HIGH = 2 ** 32;

/** Whole numbers of 64 bits by halves, which is many times faster than BigInts. */
function write(words: Uint32Array, values: Float64Array): void {
  for (let at = 0; at < values.length; at++) {
    const value = values[at]!;
    words[2 * at] = value % HIGH;
    words[2 * at + 1] = value / HIGH;
  }
}

function read(words: Uint32Array, values: Float64Array): void {
  for (let at = 0; at < values.length; at++) values[at] = words[2 * at]! + words[2 * at + 1]! * HIGH;
}
