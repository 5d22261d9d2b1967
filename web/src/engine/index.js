/** The page's face of the engine. */

export { Engine, EngineError, loadEngine } from "./engine.js";
export { Column, Heap } from "./heap.js";
export { Pack, unpack } from "./pack.js";
export { Replayer } from "./replay.js";
export { Graph, replay } from "./graph.js";
