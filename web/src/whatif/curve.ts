/** The step over one slid quantity, all other sliders as they stand. */

import type { Lever } from "../contents";
import type { Scenario } from "../model";
import { rangeOf, settingOf } from "./levers";
import type { Parts } from "./step";

export interface CurvePoint {
  position: number;
  stepNs: number;
  parts: Parts;
}

const AT_ONCE_MS = 8;
const LATER_MS = 250; // what is dragged and the timeline come first

/** Replays position by position, a little at a time, so that the page goes on reacting. */
export function followCurve(
  scenario: Scenario, levers: Lever[], sliders: Record<string, number>, lever: Lever,
  done: (points: CurvePoint[]) => void,
): () => void {
  const { least, most } = rangeOf(lever);
  const points: CurvePoint[] = [];
  let position = least;
  let timer = 0;
  const go = () => {
    const until = performance.now() + AT_ONCE_MS;
    while (position <= most && performance.now() < until) {
      const setting = settingOf(levers, { ...sliders, [lever.name]: position });
      const { stepNs, parts } = scenario.ask(setting);
      points.push({ position, stepNs, parts });
      position += 1;
    }
    if (position > most) done(points);
    else timer = window.setTimeout(go, 30);
  };
  timer = window.setTimeout(go, LATER_MS);
  return () => clearTimeout(timer);
}

const MATTERS = 1.01;

/** From where on more of it shortens the step by less than 1 %; null where that is never. */
export function enough(points: CurvePoint[]): number | null {
  const best = points.at(-1);
  if (!best) return null;
  const at = points.findIndex((point) => point.stepNs <= MATTERS * best.stepNs);
  if (at <= 0) return points[at]?.position ?? null;
  const [before, after] = [points[at - 1]!, points[at]!];
  const share = (before.stepNs - MATTERS * best.stepNs) / (before.stepNs - after.stepNs || 1);
  return before.position + Math.min(1, share) * (after.position - before.position);
}
