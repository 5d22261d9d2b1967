/**
 * Reads what `paceline.report.page.pack` writes: columns, texts and facts of a run, compressed.
 *
 * After the eight bytes of MAGIC comes one raw deflate stream: the length of a header in four bytes,
 * the header as JSON, and the bytes of every column in the header's order.
 */

import { EngineError } from "./engine.js";
import { Column } from "./heap.js";

export const MAGIC = "plpack 1";

/** @type {Record<string, any>} */
const KINDS = { uint8: Uint8Array, int32: Int32Array, int64: BigInt64Array, float64: Float64Array };

/** By their numbers in native/wasm/unpack.cpp. */
const CODINGS = ["varints", "delta varints", "planes", "delta planes"];

/**
 * @typedef {{ name: string, type: string, count: number, bytes: number, coding: string }} Described
 */

export class Pack {
  /**
   * @param {Record<string, any>} facts
   * @param {Map<string, Column<any>>} columns in the engine's memory
   */
  constructor(facts, columns) {
    this.facts = facts;
    this.columns = columns;
  }

  /** @param {string} name */
  column(name) {
    const found = this.columns.get(name);
    if (!found) throw new EngineError(`this file carries no column ${name}`);
    return found;
  }

  /** The same for an owner that may change it: the pack has it no longer. @param {string} name */
  taken(name) {
    const found = this.column(name);
    this.columns.delete(name);
    return found;
  }

  /** @param {string} name */
  has(name) {
    return this.columns.has(name);
  }
}

/**
 * @param {import("./engine.js").Engine} engine
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {Promise<Pack>}
 */
export async function unpack(engine, bytes) {
  const magic = new TextDecoder().decode(bytes.subarray(0, MAGIC.length));
  if (magic !== MAGIC) {
    throw new EngineError(
      `the data begin with ${JSON.stringify(magic)} and not with ${JSON.stringify(MAGIC)}: ` +
        "the file was edited, or written by another version; write it again with `paceline report`",
    );
  }
  const plain = await inflated(bytes.subarray(MAGIC.length));
  const size = plain.length < 4 ? plain.length : new DataView(plain.buffer).getUint32(0, true);
  if (size + 4 > plain.length) throw damaged("its header is cut off");
  const { facts, columns } = JSON.parse(new TextDecoder().decode(plain.subarray(4, 4 + size)));
  return new Pack(facts, unpackAll(engine, columns, plain.subarray(4 + size)));
}

/** @param {string} what */
function damaged(what) {
  return new EngineError(`the data of this file are damaged: ${what}. Write it again`);
}

/** @param {Uint8Array<ArrayBuffer>} bytes */
async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  try {
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch {
    throw damaged("they cannot be decompressed");
  }
}

/**
 * @param {import("./engine.js").Engine} engine
 * @param {Described[]} described
 * @param {Uint8Array} bytes
 */
function unpackAll(engine, described, bytes) {
  /** @type {Map<string, Column<any>>} */
  const columns = new Map();
  let at = 0;
  for (const one of described) {
    const mine = bytes.subarray(at, at + one.bytes);
    at += one.bytes;
    if (mine.length < one.bytes) throw damaged(`column ${one.name} is cut off`);
    columns.set(one.name, unpackOne(engine, one, mine));
  }
  return columns;
}

/**
 * @param {import("./engine.js").Engine} engine
 * @param {Described} described
 * @param {Uint8Array} bytes
 */
function unpackOne({ heap, calls }, { name, type, count, coding }, bytes) {
  const kind = KINDS[type];
  if (!kind) throw damaged(`column ${name} is of type ${type}`);
  const packed = heap.put(bytes);
  if (coding === "plain") {
    return new Column(heap, kind, packed.address, count);
  }
  const out = heap.room(/** @type {any} */ (kind), count);
  const code = CODINGS.indexOf(coding);
  if (code < 0) throw damaged(`column ${name} is coded as ${coding}`);
  const whole = calls.unpack_column(
    packed.address, bytes.length, code, out.address, count, kind.BYTES_PER_ELEMENT,
  );
  packed.release();
  if (!whole) throw damaged(`column ${name} does not hold ${count} numbers`);
  return out;
}
