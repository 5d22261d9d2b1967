/**
 * Answers questions about a packed graph: `node web/test/asked.js ENGINE.wasm FILE.pack QUESTIONS`.
 *
 * QUESTIONS is JSON: `windows` of [from, to, pixels], `slid` settings of all ops' factor, latency and
 * rate, and `sampled` ops. Prints JSON: what is drawn of each window, its sums, the step of each
 * setting, the samples of each op.
 */

import { readFileSync } from "node:fs";
import { Edits, Graph, levelsIn, levelsOf, loadEngine, replay, stepNs, unpack } from "../src/engine/index.js";

const [engineFile, file, questions] = process.argv.slice(2);
const { windows, slid, sampled } = JSON.parse(questions);
const engine = await loadEngine(readFileSync(engineFile));
const pack = await unpack(engine, new Uint8Array(readFileSync(file)));
const graph = new Graph(engine, pack);

replay(graph);
const levels = pack.has("level_lane") ? levelsIn(engine, pack) : levelsOf(graph);
const lanes = Int32Array.from(graph.lanes, (_, lane) => lane);
const seen = windows.map((/** @type {number[]} */ [from, to, pixels]) => ({
  rows: drawn(BigInt(from), BigInt(to), pixels),
  sums: Array.from(levels.sums(BigInt(from), BigInt(to), lanes), Number),
}));
const edits = new Edits(graph, new Uint8Array(graph.ops), 1);
const steps = slid.map((/** @type {any} */ { factor, latency, rate }) =>
  Number(stepNs(graph, edits.apply({ factors: [factor], latency, rate }))),
);
const samples = sampled.map((/** @type {number} */ op) => graph.samplesOf(op));
console.log(JSON.stringify({ seen, steps, samples }));

/** @param {bigint} from @param {bigint} to @param {number} pixels */
function drawn(from, to, pixels) {
  const found = levels.draw(from, to, pixels, lanes);
  const rows = [];
  for (let row = 0; row < found.rows; row++) {
    const { lane, kind, start, end, busy, ops } = found;
    rows.push([lane[row], kind[row], Number(start[row]), Number(end[row]), Number(busy[row]), ops[row]]);
  }
  return rows;
}
