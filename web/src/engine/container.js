/**
 * The container that `paceline.report.page.pack` writes: facts, and columns that are still coded.
 *
 * After the eight bytes of MAGIC comes one raw deflate stream: the length of a header in four bytes,
 * the header as JSON, and the bytes of every column in the header's order.
 */

import { EngineError } from "./engine.js";

export const MAGIC = "plpack 1";

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
  const plain = await inflated(bytes.subarray(MAGIC.length));
  const size = plain.length < 4 ? plain.length : new DataView(plain.buffer).getUint32(0, true);
  if (size + 4 > plain.length) throw damaged("its header is cut off");
  const { facts, columns } = JSON.parse(new TextDecoder().decode(plain.subarray(4, 4 + size)));
  return { facts, columns: cut(columns, plain.subarray(4 + size)) };
}

/** @param {string} what */
export function damaged(what) {
  return new EngineError(`the data of this file are damaged: ${what}. Write it again`);
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

/** @param {Uint8Array<ArrayBuffer>} bytes */
async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  try {
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch {
    throw damaged("they cannot be decompressed");
  }
}
