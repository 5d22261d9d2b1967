/** Ops by name and layer. */

import type { Track } from "../track";

export interface Matches {
  ops: { track: Track; op: number }[];
  at: number;
  more: boolean;
  /** By timeline: which places of its pool of names match, for drawing. */
  byTrack: Map<Track, Uint8Array>;
}

const MOST = 10_000;

/** In order of time, timeline by timeline. A layer matches with all its ops. */
export function matchesOf(tracks: Track[], text: string): Matches {
  const wanted = text.trim().toLowerCase();
  const found: Matches = { ops: [], at: -1, more: false, byTrack: new Map() };
  for (const track of tracks) {
    const fits = Uint8Array.from(track.names, (name) => Number(name.toLowerCase().includes(wanted)));
    const names = fits.slice();
    const { name, layer } = track.columns;
    const mine: number[] = [];
    for (let op = 0; op < track.count; op++) {
      if (!fits[name[op]!] && !(layer[op]! >= 0 && fits[layer[op]!])) continue;
      names[name[op]!] = 1;
      if (mine.length < MOST) mine.push(op);
      else found.more = true;
    }
    mine.sort((a, b) => track.start[a]! - track.start[b]!);
    found.ops.push(...mine.map((op) => ({ track, op })));
    found.byTrack.set(track, names);
  }
  return found;
}
