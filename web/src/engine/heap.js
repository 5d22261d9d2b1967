/**
 * The memory of the engine's module: columns lie in it, and calls are given their addresses.
 *
 * Memory may move when it grows, so a view is good until the next call of the engine; a `Column` is
 * good for as long as it is not released.
 */

/** @typedef {Uint8Array | Int32Array | BigInt64Array | Float64Array} Values */
/**
 * @template {Values} T
 * @typedef {{ new (buffer: ArrayBufferLike, at: number, length: number): T, BYTES_PER_ELEMENT: number }} Kind
 */

/**
 * A flat array in the engine's memory.
 * @template {Values} T
 */
export class Column {
  /**
   * @param {Heap} heap
   * @param {Kind<T>} kind
   * @param {number} address
   * @param {number} length
   */
  constructor(heap, kind, address, length) {
    this.heap = heap;
    this.kind = kind;
    this.address = address;
    this.length = length;
  }

  /** A view; good until the next call of the engine. */
  get values() {
    return new this.kind(this.heap.memory.buffer, this.address, this.length);
  }

  /** The same outside the engine. @returns {T} */
  copy() {
    return /** @type {T} */ (this.values.slice());
  }

  release() {
    this.heap.release(this.address);
  }
}

export class Heap {
  /** @param {Record<string, any>} exported what the module exports */
  constructor(exported) {
    /** @type {WebAssembly.Memory} */
    this.memory = exported.memory;
    this.exported = exported;
  }

  /**
   * Room for a column; its values are not set.
   * @template {Values} T
   * @param {Kind<T>} kind
   * @param {number} length
   * @returns {Column<T>}
   */
  room(kind, length) {
    const address = this.exported.allocate(Math.max(8, length * kind.BYTES_PER_ELEMENT)) >>> 0;
    return new Column(this, kind, address, length);
  }

  /**
   * Values taken into the engine's memory.
   * @template {Values} T
   * @param {T} values
   * @returns {Column<T>}
   */
  put(values) {
    const column = this.room(/** @type {Kind<T>} */ (values.constructor), values.length);
    /** @type {any} */ (column.values).set(values);
    return column;
  }

  /**
   * Whole numbers, in 64 bits as the engine has them.
   * @param {ArrayLike<number>} numbers
   * @returns {Column<BigInt64Array>}
   */
  whole(numbers) {
    const given = this.put(Float64Array.from(numbers));
    const column = this.room(/** @type {Kind<BigInt64Array>} */ (BigInt64Array), numbers.length);
    this.exported.times_of(given.address, numbers.length, column.address);
    given.release();
    return column;
  }

  /**
   * Call with the address of a table of words of 32 bits: counts, addresses, columns (0 for none).
   * @template R
   * @param {(number | Column<any> | null)[]} words
   * @param {(address: number) => R} call
   * @returns {R}
   */
  withTable(words, call) {
    const table = this.room(Int32Array, words.length);
    const values = table.values;
    words.forEach((word, i) => {
      values[i] = word instanceof Column ? word.address : (word ?? 0);
    });
    try {
      return call(table.address);
    } finally {
      table.release();
    }
  }

  /**
   * The words that a call writes into a table.
   * @param {number} size
   * @param {(address: number) => void} call
   * @returns {number[]}
   */
  readTable(size, call) {
    const table = this.room(Int32Array, size);
    call(table.address);
    const words = Array.from(table.values, (word) => word >>> 0);
    table.release();
    return words;
  }

  /** @param {number} address */
  release(address) {
    this.exported.release(address);
  }
}
