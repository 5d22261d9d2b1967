/** What the engine needs to know of a timeline to tell how long a step takes and what is in it. */

import type { ScenarioData } from "../contents";
import type { Track } from "../track";

/** Of a mean rank, in ns: computing alone, computing while bytes move, bytes and waiting alone. */
export interface Parts {
  compute: number;
  hidden: number;
  exposed: number;
  other: number;
}

export interface StepColumns {
  /** Of each op: which of the steps, counted from 0. */
  step: Int32Array;
  /** Of each lane: which of the ranks, counted from 0. */
  rank: Int32Array;
  /** Ops between which steps that run into one another are timed. */
  update: Int32Array;
  ranks: number;
  steps: number;
}

export function stepColumns(track: Track, { overlap }: ScenarioData): StepColumns {
  const [steps, step] = placed(track.columns.step);
  const [ranks, rank] = placed(track.lanes.map((lane) => lane.rank));
  return { step, rank, update: overlap ? updatesOf(track) : new Int32Array(0), ranks, steps };
}

/** How many different numbers there are, and of each its place among them. */
function placed(numbers: ArrayLike<number>): [number, Int32Array] {
  const different = [...new Set(Array.from(numbers))].sort((a, b) => a - b);
  const places = new Map(different.map((number, place) => [number, place]));
  return [different.length, Int32Array.from(numbers, (number) => places.get(number)!)];
}

const UPDATE = 3; // its number among the phases

/** The updates of the first rank, in order of their steps. */
function updatesOf(track: Track): Int32Array {
  const { phase, step } = track.columns;
  const first = track.ranks[0];
  const found: number[] = [];
  for (let op = 0; op < track.count; op++) {
    if (phase[op] === UPDATE && track.rankOf(op) === first) found.push(op);
  }
  return Int32Array.from(found.sort((a, b) => step[a]! - step[b]!));
}
