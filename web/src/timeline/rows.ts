/** Which rows stand under each other: timelines, their ranks, and the lanes of ranks not folded. */

import type { State } from "../state";
import type { Track } from "../track";

export interface Row {
  what: "track" | "rank" | "lane";
  key: string;
  label: string;
  track: Track;
  rank: number;
  lanes: number[];
  folded: boolean;
  pinned: boolean;
  y: number;
  height: number;
}

const HEIGHTS = { track: 26, rank: 18, lane: 20 };
const FOLDED = 22;

export const rankKey = (track: Track, rank: number): string => `${track.kind}/${rank}`;
export const laneKey = (track: Track, lane: number): string => `${track.kind}/${lane}`;

/** From top to bottom: pinned lanes, then every timeline. */
export function rowsOf(tracks: Track[], state: State): Row[] {
  const rows: Omit<Row, "y">[] = tracks.flatMap((track) => pinnedRows(track, state));
  for (const track of tracks) {
    rows.push(row("track", track, track.kind, track.title, -1, []));
    for (const rank of track.ranks) rows.push(...rankRows(track, rank, state));
  }
  let y = 0;
  return rows.map((each) => {
    const placed = { ...each, y };
    y += each.height;
    return placed;
  });
}

function rankRows(track: Track, rank: number, state: State): Omit<Row, "y">[] {
  const lanes = lanesOf(track, rank);
  const host = `host ${track.lanes[lanes[0]!]!.host}`;
  const wanted = lanes.filter((lane) => matches(state.filter, rank, host, track.lanes[lane]!.name));
  if (!wanted.length) return [];
  const key = rankKey(track, rank);
  const folded = state.folded.includes(key);
  const head = row("rank", track, key, `rank ${rank}`, rank, wanted, folded);
  if (folded) return [{ ...head, height: Math.max(FOLDED, 4 * wanted.length + 4) }];
  return [head, ...wanted.map((lane) => laneRow(track, rank, lane, false))];
}

function pinnedRows(track: Track, state: State): Omit<Row, "y">[] {
  return track.lanes.flatMap(({ rank }, lane) =>
    state.pinned.includes(laneKey(track, lane)) ? [laneRow(track, rank, lane, true)] : [],
  );
}

function laneRow(track: Track, rank: number, lane: number, pinned: boolean): Omit<Row, "y"> {
  const name = track.lanes[lane]!.name;
  const label = pinned ? `${track.kind} rank ${rank} ${name}` : name;
  return row("lane", track, laneKey(track, lane), label, rank, [lane], false, pinned);
}

function row(
  what: Row["what"], track: Track, key: string, label: string, rank: number, lanes: number[],
  folded = false, pinned = false,
): Omit<Row, "y"> {
  return { what, track, key, label, rank, lanes, folded, pinned, height: HEIGHTS[what] };
}

const known = new WeakMap<Track, Map<number, number[]>>();

export function lanesOf(track: Track, rank: number): number[] {
  let found = known.get(track);
  if (!found) {
    found = new Map();
    track.lanes.forEach((lane, at) => found!.set(lane.rank, [...(found!.get(lane.rank) ?? []), at]));
    known.set(track, found);
  }
  return found.get(rank) ?? [];
}

/** Words of the filter, all of which a lane must have: `rank 3`, `host 1`, `stream`. */
function matches(filter: string, rank: number, host: string, lane: string): boolean {
  const words = filter.toLowerCase().match(/(rank|host) \d+|\S+/g) ?? [];
  const own = `${host} ${lane}`.toLowerCase();
  return words.every((word) => word === `rank ${rank}` || word === host || own.includes(word));
}
