/** The engine: the C++ of the package as WebAssembly, from bytes that the page carries. */

import { Heap } from "./heap.js";

/** What the page says where the engine or a file cannot be used. */
export class EngineError extends Error {
  name = "EngineError";
}

export class Engine {
  /** @param {Record<string, any>} exported */
  constructor(exported) {
    this.calls = exported;
    this.heap = new Heap(exported);
  }
}

/**
 * Load the module. It imports nothing and fetches nothing.
 * @param {BufferSource} bytes of `engine.wasm`
 * @returns {Promise<Engine>}
 */
export async function loadEngine(bytes) {
  if (typeof WebAssembly !== "object") {
    throw new EngineError("this browser has no WebAssembly, so nothing can be re-simulated here");
  }
  const { instance } = await WebAssembly.instantiate(bytes, {});
  const exported = /** @type {Record<string, any>} */ (instance.exports);
  exported._initialize();
  return new Engine(exported);
}
