/**
 * The container that `paceline.report.page.pack` writes: facts, and columns that are still coded.
 *
 * After the eight bytes of MAGIC comes one zlib stream, with its checksum: the length of a header in
 * four bytes, the header as JSON, and the bytes of every column in the header's order.
 */

import { EngineError } from "./engine.js";

export const MAGIC = "plpack 2";

/** Data of the file are missing or wrong; `facts` are what can still be read of it, or null. */
export class DamagedError extends EngineError {
  /** @param {string} what @param {Record<string, any> | null} [facts] */
  constructor(what, facts = null) {
    super(`the data of this file are damaged: ${what}. Write it again`);
    this.facts = facts;
  }
}

/**
 * @typedef {{ name: string, type: string, count: number, bytes: number, coding: string }} Described
 */

/** @typedef {{ described: Described, bytes: Uint8Array<ArrayBuffer> }} Coded */

/**
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {Promise<{ facts: Record<string, any>, columns: Map<string, Coded> }>}
 */
export async function opened(bytes) {
  const magic = new TextDecoder().decode(bytes.subarray(0, MAGIC.length));
  if (magic !== MAGIC) {
    throw new EngineError(
      `the data begin with ${JSON.stringify(magic)} and not with ${JSON.stringify(MAGIC)}: ` +
        "the file was edited, or written by another version; write it again with `paceline report`",
    );
  }
  const { plain, whole } = await inflated(bytes.subarray(MAGIC.length));
  const size = plain.length < 4 ? plain.length : new DataView(plain.buffer).getUint32(0, true);
  if (size + 4 > plain.length) throw damaged("its header is cut off");
  const { facts, columns } = header(plain.subarray(4, 4 + size));
  if (!whole) throw new DamagedError("they end too early, or are not what was written", facts);
  return { facts, columns: cut(columns, plain.subarray(4 + size)) };
}

/** @param {string} what */
export const damaged = (what) => new DamagedError(what);

/** @param {Uint8Array<ArrayBuffer>} bytes @returns {{ facts: Record<string, any>, columns: Described[] }} */
function header(bytes) {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw damaged("its header is no JSON");
  }
}

/**
 * The bytes of each column.
 * @param {Described[]} described
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
function cut(described, bytes) {
  /** @type {Map<string, Coded>} */
  const found = new Map();
  let at = 0;
  for (const one of described) {
    const mine = bytes.subarray(at, at + one.bytes);
    at += one.bytes;
    if (mine.length < one.bytes) throw damaged(`column ${one.name} is cut off`);
    found.set(one.name, { described: one, bytes: mine });
  }
  return found;
}

const PIECE = 1 << 16;

/**
 * As much as can be decompressed, and whether that is all and what was written. A stream that fails
 * forgets what nobody has read of it yet, so it gets its data piece by piece, and ends in peace.
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
async function inflated(bytes) {
  const { readable, writable } = new DecompressionStream("deflate");
  const reading = gathered(readable.getReader());
  const writer = writable.getWriter();
  try {
    for (let at = 0; at < bytes.length; at += PIECE) await writer.write(bytes.subarray(at, at + PIECE));
    await new Promise((done) => setTimeout(done, 0));
    await writer.close();
  } catch {
    // the reader tells
  }
  return reading;
}

/** @param {ReadableStreamDefaultReader<Uint8Array>} reader */
async function gathered(reader) {
  /** @type {Uint8Array[]} */
  const chunks = [];
  let whole = false;
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) chunks.push(next.value);
    whole = true;
  } catch {
    // what came before is kept
  }
  const plain = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  chunks.reduce((at, chunk) => (plain.set(chunk, at), at + chunk.length), 0);
  return { plain, whole };
}
