/** How long each op takes at a setting of the sliders. */

import type { ScenarioData } from "../contents";
import { type Price, priceNs } from "../engine/edits.js";
import type { Track } from "../track";
import { Kind } from "../words";

/** Bits of `touched`, in the order of `BY_NAME` in src/paceline/report/page/scenarios.py. */
const BY_NAME = [
  "compute", "forward", "backward", "update", "data", "host", "waits", "communication",
];

export interface Setting {
  /** By lever over ops: how many times as fast. */
  speeds: Record<string, number>;
  /** How many times what the links have. */
  rate: number;
  latency: number;
}

export const UNTOUCHED: Setting = { speeds: {}, rate: 1, latency: 1 };

/** In ns, rounded as Python rounds: changes of ops one after the other, then the links' prices. */
export function durations({ program, prices }: ScenarioData, setting: Setting): Float64Array {
  const { dur, touched } = program;
  const found = new Float64Array(dur);
  const factors = BY_NAME.map((name) => 1 / (setting.speeds[name] ?? 1));
  factors.forEach((factor, place) => {
    if (factor === 1) return;
    for (let op = 0; op < found.length; op++) {
      if ((touched[op]! >> place) & 1) found[op] = rint(found[op]! * factor);
    }
  });
  if (prices.length) overLinks({ program, prices }, setting, factors, found);
  return found;
}

function overLinks(
  { program, prices }: Pick<ScenarioData, "program" | "prices">,
  setting: Setting,
  factors: number[],
  found: Float64Array,
): void {
  const { price_of, factor, touched } = program;
  const times = prices.map((price: Price) => priceNs(price, setting.latency, setting.rate));
  for (let op = 0; op < found.length; op++) {
    const price = price_of[op]!;
    if (price < 0) continue;
    let parts = factor[op]!;
    factors.forEach((each, place) => {
      if (each !== 1 && (touched[op]! >> place) & 1) parts = rint(parts * each);
    });
    found[op] = rint(times[price]! * (parts / 1e9));
  }
}

/** Work that began after a rest of its lane takes longer, as src/paceline/predict/rests.py has it. */
export function afterRests(
  track: Track, priced: Float64Array, { least_ns, factor, warm_ns }: ScenarioData["rests"],
): Float64Array {
  const { lane, kind } = track.columns;
  const found = new Float64Array(priced);
  const ended = new Float64Array(track.lanes.length).fill(Number.POSITIVE_INFINITY);
  const worked = new Float64Array(track.lanes.length).fill(Number.POSITIVE_INFINITY);
  for (let op = 0; op < found.length; op++) {
    if (kind[op] !== Kind.Compute || !(priced[op]! > 0)) continue;
    const at = lane[op]!;
    const rested = track.start[op]! - ended[at]! >= least_ns;
    if (rested) worked[at] = 0;
    if (rested || worked[at]! < warm_ns / factor) found[op] = rint(priced[op]! * factor);
    worked[at]! += priced[op]!;
    ended[at] = track.end[op]!;
  }
  return found;
}

/** The nearest whole number; of two as near the even one. */
function rint(value: number): number {
  const nearest = Math.round(value);
  return nearest - value === 0.5 && nearest % 2 ? nearest - 1 : nearest;
}
