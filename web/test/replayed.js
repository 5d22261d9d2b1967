/**
 * Replays every packed graph of a folder: `node web/test/replayed.js ENGINE.wasm FOLDER`.
 *
 * Beside NAME.pack it writes NAME.times, the columns ready, start and end, or NAME.error.
 */

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { EngineError, Graph, loadEngine, replay, unpack } from "../src/engine/index.js";

const [engineFile, folder] = process.argv.slice(2);
const bytes = readFileSync(engineFile);

for (const file of readdirSync(folder).filter((name) => name.endsWith(".pack"))) {
  const path = join(folder, file.slice(0, -".pack".length));
  try {
    writeFileSync(`${path}.times`, await replayed(`${path}.pack`));
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    writeFileSync(`${path}.error`, error.message);
  }
}

/** @param {string} path */
async function replayed(path) {
  const engine = await loadEngine(bytes);
  const graph = new Graph(engine, await unpack(engine, new Uint8Array(readFileSync(path))));
  const { ready, start, end } = replay(graph);
  return Buffer.concat([ready, start, end].map((column) => new Uint8Array(column.slice().buffer)));
}
