/** The engine that the page carries: the same C++ as Python's, as WebAssembly. */

import engineBase64 from "virtual:engine";
import { type Engine, loadEngine } from "./engine/index.js";
import { bytesOf } from "./unpack";

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
  return loadEngine(bytesOf(engineBase64));
}
