/**
 * Answers questions about a packed graph: `node web/test/asked.js ENGINE.wasm FILE.pack QUESTIONS`.
 *
 * QUESTIONS is JSON: `windows` of [from, to, pixels], `slid` settings of all ops' factor, latency and
 * rate, `sampled` ops, and `told`, columns and sizes of `StepParts`. Prints JSON: what is drawn of
 * each window, its sums, the step of each setting, the samples of each op; where `told` is given,
 * what each setting's replay says of its step, each op's slack, and the critical path.
 */

import { readFileSync } from "node:fs";
import {
  Edits, Graph, levelsIn, levelsOf, loadEngine, replay, StepParts, stepNs, unpack,
} from "../src/engine/index.js";

const [engineFile, file, questions] = process.argv.slice(2);
const { windows, slid, sampled, told } = JSON.parse(questions);
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
const { heap } = engine;
const edits = new Edits(
  engine,
  {
    durations: graph.durations,
    touched: heap.put(new Uint8Array(graph.ops).fill(1)),
    priceOf: pack.has("price_of") ? pack.column("price_of") : heap.put(new Int32Array(graph.ops).fill(-1)),
    scale: pack.column("scale_ppb"),
  },
  pack.facts.prices ?? [],
);
/** @param {any} setting */
const durationsAt = ({ factor, latency, rate }) => edits.apply({ factors: [factor], latency, rate });
const steps = slid.map((/** @type {any} */ setting) => Number(stepNs(graph, durationsAt(setting))));
const samples = sampled.map((/** @type {number} */ op) => graph.samplesOf(op));
const replays = told ? slid.map(replayed) : [];
console.log(JSON.stringify({ seen, steps, samples, replays }));

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

/** @param {any} setting */
function replayed(setting) {
  const { step, rank, update, ...sizes } = told;
  const [ofOp, ofLane, updates] = [step, rank, update].map((each) => heap.put(Int32Array.from(each)));
  const columns = { lane: graph.structure.lane, kind: pack.column("kind"), step: ofOp, rank: ofLane, update: updates };
  const parts = new StepParts(engine, { ...columns, ...sizes });
  replay(graph, durationsAt(setting));
  return {
    told: parts.tell(graph.replayer.addresses()),
    order: [...parts.order()],
    slack: Array.from(graph.replayer.slack().values, Number),
    path: [...graph.replayer.path()],
  };
}
