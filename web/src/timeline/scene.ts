/** What a picture of timelines shows, and where moments lie in it. */

import type { Palette } from "../charts/palette";
import type { Track } from "../track";
import type { Row } from "./rows";

export const GUTTER = 168;
export const AXIS = 24;

export interface Scene {
  rows: Row[];
  from: number;
  to: number;
  width: number;
  height: number;
  scroll: number;
  palette: Palette;
  lit: boolean;
  chosen: { track: Track; op: number } | null;
  range: [number, number] | null;
  cursor: number | null;
  /** By timeline: names that a search found, by place in its pool. */
  found: Map<Track, Uint8Array> | null;
}

/** Where a moment lies on the screen. */
export function scale({ from, to, width }: Scene): (moment: number) => number {
  const factor = (width - GUTTER) / Math.max(to - from, 1);
  return (moment) => GUTTER + (moment - from) * factor;
}
