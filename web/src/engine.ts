/** What the page asks of the engine: `engine/` is the same C++ as Python's, as WebAssembly. */

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
  replay(durations: Float64Array): Times;
}

export interface Engine {
  compile(structure: Structure): Program;
}

/** The engine, or an error that says why this browser has none. */
export async function openEngine(): Promise<Engine> {
  if (typeof WebAssembly === "undefined") {
    throw new Error(
      "this browser runs no WebAssembly, so the sliders rest; the recorded step is all here. Open " +
        "the file in a current Firefox, Chrome, Edge or Safari",
    );
  }
  throw new Error("this page was built without its engine");
}
