/** A container's columns in the engine's memory. */

import { damaged, opened } from "./container.js";
import { EngineError } from "./engine.js";
import { Column } from "./heap.js";

/** @type {Record<string, any>} */
const KINDS = { uint8: Uint8Array, int32: Int32Array, int64: BigInt64Array, float64: Float64Array };

/** By their numbers in native/wasm/unpack.cpp. */
const CODINGS = ["varints", "delta varints", "planes", "delta planes"];

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
  const { facts, columns } = await opened(bytes);
  const found = [...columns].map(([name, coded]) => /** @type {const} */ ([name, put(engine, coded)]));
  return new Pack(facts, new Map(found));
}

/**
 * @param {import("./engine.js").Engine} engine
 * @param {import("./container.js").Coded} coded
 * @returns {Column<any>}
 */
function put({ heap, calls }, { described: { name, type, count, coding }, bytes }) {
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
