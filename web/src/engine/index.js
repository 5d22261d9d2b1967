/** The page's face of the engine. */

export { Engine, EngineError, loadEngine } from "./engine.js";
export { Column, Heap } from "./heap.js";
export { Pack, unpack } from "./pack.js";
export { StepParts } from "./parts.js";
export { Rests } from "./rests.js";
export { Replayer } from "./replay.js";
export { Conditions } from "./conditions.js";
export { Edits } from "./edits.js";
export { KINDS, Levels, WAITING, levelsIn, levelsOf } from "./levels.js";
export { Graph, replay, stepNs } from "./graph.js";
