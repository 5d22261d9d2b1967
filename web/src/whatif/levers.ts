/** Sliders: what each position means, in numbers and in words. */

import type { Lever, ScenarioData } from "../contents";
import { duration, rate } from "../format";
import type { Setting } from "./setting";

/** A slider stands at a whole number; 0 is untouched, four steps are a factor of two. */
export interface Range {
  least: number;
  most: number;
}

const STEPS = 4;

export const rangeOf = (lever: Lever): Range =>
  lever.name === "rate" ? { least: -8, most: 24 }
  : lever.name === "latency" ? { least: -16, most: 16 }
  : { least: -8, most: 16 };

export const factorAt = (position: number): number => 2 ** (position / STEPS);

export function textAt(lever: Lever, position: number): string {
  const factor = factorAt(position);
  if (lever.name === "rate" && lever.now) return rate(lever.now * factor);
  if (lever.name === "latency") return lever.now ? duration(lever.now * factor) : `${short(factor)} ×`;
  return `${short(factor)} × as fast`;
}

export const short = (factor: number): string =>
  factor.toLocaleString("en-US", { maximumSignificantDigits: 3 });

export function settingOf(levers: Lever[], sliders: Record<string, number>): Setting {
  const setting: Setting = { speeds: {}, rate: 1, latency: 1 };
  for (const lever of levers) {
    const position = sliders[lever.name] ?? 0;
    if (!position || lever.why_not) continue;
    if (lever.name === "rate") setting.rate = factorAt(position);
    else if (lever.name === "latency") setting.latency = factorAt(position);
    else setting.speeds[lever.name] = factorAt(position);
  }
  return setting;
}

/** Steps that nothing was changed of. */
const UNCHANGED = ["as recorded", "as predicted"];

/** The same question for a terminal. */
export function commandOf(levers: Lever[], sliders: Record<string, number>, scenario: ScenarioData): string {
  const moved = levers.filter((lever) => sliders[lever.name] && !lever.why_not);
  const words = ["paceline predict RUN"];
  if (levers.some(({ name, why_not }) => name === "rate" && !why_not)) words.push("--cluster FILE");
  for (const lever of moved) {
    const position = sliders[lever.name]!;
    if (lever.name === "rate" && lever.now) words.push(`--set link.rate=${Math.round(lever.now * factorAt(position))}bps`);
    else if (lever.name === "latency" && lever.now) words.push(`--set link.latency=${Math.round(lever.now * factorAt(position))}ns`);
  }
  const changes = scenario.changes ?? scenario.name;
  if (!UNCHANGED.includes(changes)) words.push(...changes.split("+").map((each) => `--with '${each}'`));
  for (const lever of moved) {
    if (lever.selection) words.push(`--scale '${lever.selection}:${1 / factorAt(sliders[lever.name]!)}'`);
  }
  return words.join(" ");
}
