/** How long a step of a timeline takes, and what it consists of. */

import type { ScenarioData, TrackData } from "../contents";
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

/** When the last op of each step ends. */
function lastEnds(track: Track): { numbers: number[]; ends: number[] } {
  const { numbers, place } = stepsOf(track);
  const ends = new Float64Array(numbers.length);
  const { end } = track;
  for (let op = 0; op < place.length; op++) {
    if (end[op]! > ends[place[op]!]!) ends[place[op]!] = end[op]!;
  }
  return { numbers, ends: [...ends] };
}

const stepsKnown = new WeakMap<TrackData, { numbers: number[]; place: Int32Array }>();

/** The numbers of steps, and which of them each op is of. */
function stepsOf({ data }: Track): { numbers: number[]; place: Int32Array } {
  let found = stepsKnown.get(data);
  if (!found) {
    const { step } = data.columns;
    const numbers = [...new Set(step)].sort((a, b) => a - b);
    const places = new Map(numbers.map((number, at) => [number, at]));
    const place = new Int32Array(step.length);
    for (let op = 0; op < place.length; op++) place[op] = places.get(step[op]!)!;
    found = { numbers, place };
    stepsKnown.set(data, found);
  }
  return found;
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
  const ranks = lanesByRank(track);
  for (const lanes of ranks) {
    const compute = union(lanes.computing, (lane) => intervals(track, lane, from, to, Kind.Compute, Kind.Compute, track.start));
    const moves = union(lanes.moving, (lane) => intervals(track, lane, from, to, Kind.Collective, Kind.Copy, track.start));
    const hidden = common(compute, moves);
    found.hidden += hidden;
    found.compute += length(compute) - hidden;
    if (!lanes.moving.some((lane) => waits(track, lane))) {
      found.exposed += length(moves) - hidden;
      continue;
    }
    const talk = union(lanes.moving, (lane) => intervals(track, lane, from, to, Kind.Collective, Kind.Copy, track.ready));
    found.exposed += length(talk) - common(compute, talk);
  }
  for (const name of ["compute", "hidden", "exposed"] as const) found[name] /= ranks.length || 1;
  found.other = to - from - found.compute - found.hidden - found.exposed;
  return found;
}

/** Whether any op of a lane waited for partners. */
function waits({ laneOps, ready, start }: Track, lane: number): boolean {
  const ops = laneOps[lane]!;
  for (let at = 0; at < ops.length; at++) if (ready[ops[at]!] !== start[ops[at]!]) return true;
  return false;
}

interface RankLanes {
  computing: number[];
  moving: number[];
}

const ranksKnown = new WeakMap<TrackData, RankLanes[]>();

/** Of each rank the lanes on which anything computes, and those on which bytes move. */
function lanesByRank(track: Track): RankLanes[] {
  let found = ranksKnown.get(track.data);
  if (!found) {
    const { kind } = track.columns;
    const has = (lane: number, least: number, most: number) =>
      track.laneOps[lane]!.some((op) => kind[op]! >= least && kind[op]! <= most);
    const byRank = new Map<number, RankLanes>();
    track.lanes.forEach(({ rank }, lane) => {
      const mine = byRank.get(rank) ?? { computing: [], moving: [] };
      if (has(lane, Kind.Compute, Kind.Compute)) mine.computing.push(lane);
      if (has(lane, Kind.Collective, Kind.Copy)) mine.moving.push(lane);
      byRank.set(rank, mine);
    });
    found = [...byRank.values()];
    ranksKnown.set(track.data, found);
  }
  return found;
}

/** Intervals that do not overlap: begin, end, begin, end, ..., in order of time. */
type Intervals = Float64Array;

const union = (lanes: number[], of: (lane: number) => Intervals): Intervals =>
  lanes.map(of).reduce(merged, new Float64Array(0));

/** Work of these kinds on a lane. A lane serves one op at a time, so that begins rise. */
function intervals(
  track: Track, lane: number, from: number, to: number, least: number, most: number, begins: Float64Array,
): Intervals {
  const ops = track.laneOps[lane]!;
  const { kind } = track.columns;
  const { ready, end } = track;
  const found = new Float64Array(2 * ops.length);
  let size = 0;
  for (let at = track.firstAfter(lane, from); at < ops.length; at++) {
    const op = ops[at]!;
    if (ready[op]! >= to) break;
    if (kind[op]! < least || kind[op]! > most) continue;
    const begin = begins[op]! > from ? begins[op]! : from;
    const stop = end[op]! < to ? end[op]! : to;
    size = add(found, size, begin, stop);
  }
  return found.subarray(0, size);
}

/** One more interval, joined to the last where they touch. */
function add(found: Float64Array, size: number, begin: number, end: number): number {
  if (end <= begin) return size;
  if (size && begin <= found[size - 1]!) {
    if (end > found[size - 1]!) found[size - 1] = end;
    return size;
  }
  found[size] = begin;
  found[size + 1] = end;
  return size + 2;
}

function merged(a: Intervals, b: Intervals): Intervals {
  if (!a.length || !b.length) return a.length ? a : b;
  const found = new Float64Array(a.length + b.length);
  let [i, j, size] = [0, 0, 0];
  while (i < a.length || j < b.length) {
    const first = j >= b.length || (i < a.length && a[i]! <= b[j]!);
    size = first ? add(found, size, a[i]!, a[i + 1]!) : add(found, size, b[j]!, b[j + 1]!);
    if (first) i += 2;
    else j += 2;
  }
  return found.subarray(0, size);
}

function length(list: Intervals): number {
  let sum = 0;
  for (let i = 0; i < list.length; i += 2) sum += list[i + 1]! - list[i]!;
  return sum;
}

function common(a: Intervals, b: Intervals): number {
  let [i, j, sum] = [0, 0, 0];
  while (i < a.length && j < b.length) {
    const begin = a[i]! > b[j]! ? a[i]! : b[j]!;
    const end = a[i + 1]! < b[j + 1]! ? a[i + 1]! : b[j + 1]!;
    if (end > begin) sum += end - begin;
    if (a[i + 1]! < b[j + 1]!) i += 2;
    else j += 2;
  }
  return sum;
}
