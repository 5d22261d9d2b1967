/**
 * How long packed files take to open: `node web/test/opened.js ENGINE.wasm GRAPH.pack LEVELS.pack`.
 *
 * Prints JSON, in seconds: from bytes in memory to the first intervals of 120 lanes on 1,500 pixels.
 */

import { readFileSync } from "node:fs";
import { Graph, levelsIn, levelsOf, loadEngine, replay, unpack } from "../src/engine/index.js";

const PIXELS = 1500;
const LANES = 120;
const [engineFile, graphFile, levelsFile] = process.argv.slice(2);
const module = readFileSync(engineFile);

console.log(
  JSON.stringify({
    packed_open_s: await seconds(graphFile, ofGraph),
    large_packed_open_s: await seconds(levelsFile, ofLevels),
  }),
);

/**
 * @param {string} file
 * @param {(engine: any, pack: any) => void} show
 */
async function seconds(file, show) {
  const bytes = new Uint8Array(readFileSync(file));
  const began = performance.now();
  const engine = await loadEngine(module);
  show(engine, await unpack(engine, bytes));
  return (performance.now() - began) / 1000;
}

/** @type {(engine: any, pack: any) => void} */
function ofGraph(engine, pack) {
  const graph = new Graph(engine, pack);
  const { stepNs } = replay(graph);
  levelsOf(graph).draw(0n, stepNs, PIXELS, some(graph.lanes.length));
}

/** @type {(engine: any, pack: any) => void} */
function ofLevels(engine, pack) {
  const { lanes, step_ns: step } = pack.facts;
  levelsIn(engine, pack).draw(0n, BigInt(step), PIXELS, some(lanes.length));
}

/** @param {number} lanes */
function some(lanes) {
  return Int32Array.from({ length: Math.min(lanes, LANES) }, (_, lane) => lane);
}
