/** Quantities as people read them, and texts of strangers as text. */

const TIMES: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const SIZES: [number, string][] = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "bytes"]];

/** 1234567 is `1.23 ms`. */
export const duration = (ns: number): string => scaled(ns, TIMES);

/** `+1.20 ms` or `−1.20 ms`. */
export const signed = (ns: number): string => `${ns < 0 ? "−" : "+"}${duration(Math.abs(ns))}`;

/** Decimal units: 1,500,000 bytes are `1.50 MB`. */
export const size = (bytes: number): string => scaled(bytes, SIZES);

/** Bits a second. */
export const rate = (bits: number): string =>
  scaled(bits, [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]]);

export const share = (part: number, whole: number): string =>
  `${whole ? ((100 * part) / whole).toFixed(1) : "0.0"} %`;

/** `+12.3 %` or `−4.0 %`. */
export function change(after: number, before: number): string {
  const percent = before ? 100 * (after / before - 1) : 0;
  return `${percent < 0 ? "−" : "+"}${Math.abs(percent).toFixed(1)} %`;
}

export const count = (value: number): string => Math.round(value).toLocaleString("en-US");

/** Characters that would not be seen, or would turn others around, shown as what they are. */
export function shown(text: string, most = 300): string {
  const cut = text.length > most ? `${text.slice(0, most)}… (${count(text.length)} characters)` : text;
  return cut.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}]/gu, (c) => `⟨${c.codePointAt(0)!.toString(16)}⟩`);
}

function scaled(value: number, units: [number, string][]): string {
  const [factor, unit] = units.find(([least]) => Math.abs(value) >= least) ?? units.at(-1)!;
  const number = value / factor;
  const digits = factor === 1 ? 0 : Math.abs(number) < 10 ? 2 : Math.abs(number) < 100 ? 1 : 0;
  return `${number.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${unit}`;
}
