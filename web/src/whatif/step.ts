/** How long a step of a timeline takes, and what it consists of. */

import type { ScenarioData } from "../contents";
import type { Track } from "../track";
import { Kind } from "../words";

/** From border to border, as src/paceline/predict/classes.py has it. */
export function stepNs(track: Track, { period, overlap }: ScenarioData): number {
  if (overlap) return betweenUpdates(track);
  const { numbers, ends } = lastEnds(track);
  const borders: number[] = [];
  for (let at = 0; at < numbers.length; at += period) {
    borders.push(Math.max(...ends.slice(at, at + period)));
  }
  if (borders.length === 1) return Math.floor(borders[0]! / Math.min(period, numbers.length));
  const whole = Math.floor((borders.at(-1)! - borders[0]!) / (borders.length - 1));
  return Math.floor(whole / period);
}

/** The last period, from border to border. */
export function lastWindow(track: Track, { period }: ScenarioData): [number, number] {
  const { ends } = lastEnds(track);
  const before = ends.slice(0, -period);
  return [before.length ? Math.max(...before) : 0, Math.max(0, ...ends)];
}

function lastEnds(track: Track): { numbers: number[]; ends: number[] } {
  const found = new Map<number, number>();
  const { step } = track.columns;
  for (let op = 0; op < track.count; op++) {
    const at = step[op]!;
    if (track.end[op]! > (found.get(at) ?? -1)) found.set(at, track.end[op]!);
  }
  const numbers = [...found.keys()].sort((a, b) => a - b);
  return { numbers, ends: numbers.map((each) => found.get(each)!) };
}

function betweenUpdates(track: Track): number {
  const { phase, step } = track.columns;
  const first = track.ranks[0];
  const updates: number[] = [];
  for (let op = 0; op < track.count; op++) {
    if (phase[op] === 3 && track.rankOf(op) === first) updates.push(op);
  }
  const ends = updates.sort((a, b) => step[a]! - step[b]!).map((op) => track.end[op]!);
  return Math.round((ends.at(-2)! - ends[0]!) / (ends.length - 2));
}

/** Of a mean rank, in ns: computing alone, computing while bytes move, bytes and waiting alone. */
export interface Parts {
  compute: number;
  hidden: number;
  exposed: number;
  other: number;
}

/** They sum to the window. */
export function partsOf(track: Track, [from, to]: [number, number]): Parts {
  const found = { compute: 0, hidden: 0, exposed: 0, other: 0 };
  const ranks = byRank(track);
  for (const lanes of ranks.values()) {
    const compute = union(track, lanes, from, to, (op) => (works(track, op) ? track.start[op]! : NaN));
    const moves = union(track, lanes, from, to, (op) => (moving(track, op) ? track.start[op]! : NaN));
    const talk = union(track, lanes, from, to, (op) => (moving(track, op) ? track.ready[op]! : NaN));
    const hidden = common(compute, moves);
    found.hidden += hidden;
    found.compute += length(compute) - hidden;
    found.exposed += length(talk) - common(compute, talk);
  }
  const whole = to - from;
  for (const name of ["compute", "hidden", "exposed"] as const) found[name] /= ranks.size || 1;
  found.other = whole - found.compute - found.hidden - found.exposed;
  return found;
}

const works = (track: Track, op: number): boolean => track.columns.kind[op] === Kind.Compute;

const moving = (track: Track, op: number): boolean => {
  const kind = track.columns.kind[op]!;
  return kind >= Kind.Collective && kind <= Kind.Copy;
};

const known = new WeakMap<Track, Map<number, number[]>>();

function byRank(track: Track): Map<number, number[]> {
  let found = known.get(track);
  if (!found) {
    found = new Map();
    track.lanes.forEach(({ rank }, lane) => found!.set(rank, [...(found!.get(rank) ?? []), lane]));
    known.set(track, found);
  }
  return found;
}

/** Intervals of ops of these lanes that do not overlap, as [begin, end, begin, end, ...]. */
function union(
  track: Track, lanes: number[], from: number, to: number, begins: (op: number) => number,
): number[] {
  const lists = lanes.map((lane) => intervals(track, lane, from, to, begins));
  return lists.filter((list) => list.length).reduce(merged, []);
}

function intervals(
  track: Track, lane: number, from: number, to: number, begins: (op: number) => number,
): number[] {
  const found: number[] = [];
  const ops = track.laneOps[lane]!;
  for (let at = track.firstAfter(lane, from); at < ops.length; at++) {
    const op = ops[at]!;
    if (track.ready[op]! >= to) break;
    const begin = begins(op);
    if (Number.isNaN(begin)) continue;
    add(found, Math.max(begin, from), Math.min(track.end[op]!, to));
  }
  return found;
}

function add(found: number[], begin: number, end: number): void {
  if (end <= begin) return;
  if (found.length && begin <= found.at(-1)!) {
    found[found.length - 1] = Math.max(found.at(-1)!, end);
  } else found.push(begin, end);
}

function merged(a: number[], b: number[]): number[] {
  if (!a.length) return b;
  const found: number[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (j >= b.length || (i < a.length && a[i]! <= b[j]!)) {
      add(found, a[i]!, a[i + 1]!);
      i += 2;
    } else {
      add(found, b[j]!, b[j + 1]!);
      j += 2;
    }
  }
  return found;
}

function length(list: number[]): number {
  let sum = 0;
  for (let i = 0; i < list.length; i += 2) sum += list[i + 1]! - list[i]!;
  return sum;
}

function common(a: number[], b: number[]): number {
  let [i, j, sum] = [0, 0, 0];
  while (i < a.length && j < b.length) {
    sum += Math.max(0, Math.min(a[i + 1]!, b[j + 1]!) - Math.max(a[i]!, b[j]!));
    if (a[i + 1]! < b[j + 1]!) i += 2;
    else j += 2;
  }
  return sum;
}
