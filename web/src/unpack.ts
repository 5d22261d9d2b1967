/** Reads the block that src/paceline/report/page/block.py writes. */

import type { Contents, Numbers } from "./contents";

interface Packed {
  at: number;
  width: number;
  length: number;
  rising: boolean;
}

/** The contents of this page. An error says that the file was cut short or edited. */
export async function unpack(base64: string): Promise<Contents> {
  try {
    return read(await inflated(base64));
  } catch (error) {
    throw new Error(
      `This file was cut short or edited, and what is left of it cannot be read (${String(error)}). ` +
        "Write it anew with `paceline report`, or send it as a file and not as text.",
    );
  }
}

async function inflated(base64: string): Promise<Uint8Array<ArrayBuffer>> {
  const text = atob(base64.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function read(block: Uint8Array<ArrayBuffer>): Contents {
  const length = new DataView(block.buffer).getUint32(0, true);
  const text = new TextDecoder().decode(block.subarray(4, 4 + length));
  const columns = block.subarray(4 + length);
  const known = new Map<string, Numbers>();
  return JSON.parse(text, (_, value) => (isPacked(value) ? once(value) : value));

  function once(column: Packed): Numbers {
    const key = `${column.at} ${column.width} ${column.length} ${column.rising}`;
    const found = known.get(key) ?? numbers(columns, column);
    known.set(key, found);
    return found;
  }
}

function isPacked(value: unknown): value is Packed {
  return typeof value === "object" && value !== null && "width" in value && "rising" in value;
}

/** A column by planes, zigzag, perhaps as differences. Whole numbers up to 2^53 are exact. */
export function numbers(bytes: Uint8Array, column: Packed): Numbers {
  const { at, width, length, rising } = column;
  if (at + width * length > bytes.length) throw new Error("a column ends beyond the file");
  const found = width > 4 ? wide(bytes, column) : narrow(bytes, column);
  if (!rising) return found;
  const sums = new Float64Array(length);
  let sum = 0;
  for (let i = 0; i < length; i++) sums[i] = sum += found[i]!;
  return sums;
}

/** Up to 32 bits a value. */
function narrow(bytes: Uint8Array, { at, width, length }: Packed): Int32Array {
  const found = new Int32Array(length);
  for (let plane = 0; plane < width; plane++) {
    const from = at + plane * length;
    for (let i = 0; i < length; i++) found[i]! |= bytes[from + i]! << (8 * plane);
  }
  for (let i = 0; i < length; i++) found[i] = (found[i]! >>> 1) ^ -(found[i]! & 1);
  return found;
}

function wide(bytes: Uint8Array, { at, width, length }: Packed): Float64Array {
  const found = new Float64Array(length);
  for (let i = 0; i < length; i++) {
    let value = 0;
    for (let plane = width - 1; plane >= 0; plane--) {
      value = value * 256 + bytes[at + plane * length + i]!;
    }
    found[i] = value % 2 ? -(value + 1) / 2 : value / 2;
  }
  return found;
}
