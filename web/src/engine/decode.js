/**
 * The numbers of a coded column without the engine, as a page needs that runs where there is none:
 * the twin of native/wasm/unpack.cpp. Whole numbers are exact up to 2^53.
 */

import { damaged } from "./container.js";

/** @typedef {Int32Array | Float64Array} Numbers */

/**
 * How a coding is read, and whether its numbers are differences.
 * @type {Record<string, { read: (bytes: Uint8Array, into: Numbers) => boolean, adds: boolean }>}
 */
const CODINGS = {
  varints: { read: varints, adds: false },
  "delta varints": { read: varints, adds: true },
  planes: { read: planes, adds: false },
  "delta planes": { read: planes, adds: true },
};

/**
 * @param {import("./container.js").Coded} coded
 * @returns {Numbers}
 */
export function decoded({ described: { name, type, count, coding }, bytes }) {
  if (type === "float64") return new Float64Array(bytes.slice().buffer, 0, count);
  const found = type === "int64" ? new Float64Array(count) : new Int32Array(count);
  const way = CODINGS[coding];
  if (!way) throw damaged(`column ${name} is coded as ${coding}`);
  if (!way.read(bytes, found)) throw damaged(`column ${name} does not hold ${count} numbers`);
  if (way.adds) for (let i = 1; i < count; i++) found[i] += found[i - 1];
  return found;
}

/** Small numbers of either sign, from zigzag. Those of 32 bits wrap as they are stored. @param {number} value */
const signed = (value) => (value % 2 ? -(value + 1) / 2 : value / 2);

/** @param {Uint8Array} bytes @param {Numbers} into */
function varints(bytes, into) {
  let at = 0;
  for (let i = 0; i < into.length; i++) {
    let byte = bytes[at++];
    let value = byte & 0x7f;
    for (let unit = 128; byte & 0x80; unit *= 128) {
      byte = bytes[at++];
      value += (byte & 0x7f) * unit;
    }
    into[i] = signed(value);
  }
  return at === bytes.length;
}

/** @param {Uint8Array} bytes @param {Numbers} into */
function planes(bytes, into) {
  const count = into.length;
  const width = count ? bytes.length / count : 0;
  if (!Number.isInteger(width)) return false;
  for (let i = 0; i < count; i++) {
    let value = 0;
    for (let plane = width - 1; plane >= 0; plane--) value = value * 256 + bytes[plane * count + i];
    into[i] = signed(value);
  }
  return count > 0 || bytes.length === 0;
}
