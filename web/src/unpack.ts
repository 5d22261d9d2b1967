/** Contents of this page, out of the container that src/paceline/report/page/write.py wrote. */

import type { Numbers, Opened, Typed } from "./contents";
import { type Coded, DamagedError, opened } from "./engine/container.js";
import { decoded } from "./engine/decode.js";

/** The file was cut short or edited; `remains` is what can still be read of it, without columns. */
export class Unreadable extends Error {
  constructor(cause: unknown, readonly remains: Opened | null) {
    super(
      `This file was cut short or edited, and what is left of it cannot be read (${String(cause)}). ` +
        "Write it anew with `paceline report`, or send it as a file and not as text.",
    );
  }
}

export async function unpack(base64: string): Promise<Opened> {
  try {
    return await read<Opened>(bytesOf(base64));
  } catch (error) {
    throw new Unreadable(error, error instanceof DamagedError ? ((error.facts?.contents as Opened) ?? null) : null);
  }
}

type FromBase64 = { fromBase64?(text: string): Uint8Array<ArrayBuffer> };

/** What a base64 text stands for; by the browser itself where it can, which takes a tenth. */
export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const trimmed = base64.trim();
  const whole = trimmed.slice(0, trimmed.length - (trimmed.length % 4)); // of one that was cut
  const browser = Uint8Array as FromBase64;
  if (browser.fromBase64) return browser.fromBase64(whole);
  const text = atob(whole);
  const found = new Uint8Array(text.length);
  for (let at = 0; at < found.length; at++) found[at] = text.charCodeAt(at);
  return found;
}

/** A part of them, or all. */
export async function read<T>(bytes: Uint8Array<ArrayBuffer>): Promise<T> {
  const { facts, columns } = await opened(bytes);
  const known = new Map<string, Numbers>();
  return filled(facts.contents) as T;

  /** The same with every column as an array; equal ones are the same array. */
  function filled(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(filled);
    if (typeof value !== "object" || value === null) return value;
    if ("column" in value && typeof value.column === "string") {
      return "typed" in value ? typed(coded(value.column)) : once(value.column);
    }
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, filled(each)]));
  }

  function once(name: string): Numbers {
    const found = known.get(name) ?? decoded(coded(name));
    known.set(name, found);
    return found;
  }

  function coded(name: string): Coded {
    const found = columns.get(name);
    if (!found) throw new Error(`it carries no column ${name}`);
    return found;
  }
}

/** As the engine takes it. */
function typed(coded: Coded): Typed {
  const numbers = decoded(coded);
  const { type } = coded.described;
  if (type === "int64") return BigInt64Array.from(numbers, BigInt);
  return type === "uint8" ? Uint8Array.from(numbers) : numbers;
}
