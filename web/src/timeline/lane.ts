/** Draws the ops of a lane: what can be seen of them, however many there are. */

import { opSeries, type Palette } from "../charts/palette";
import type { Surface } from "../charts/surface";
import { shown } from "../format";
import type { Track } from "../track";
import { Kind } from "../words";
import { GUTTER, type Scene } from "./scene";

/** Where on the screen. */
export interface Strip {
  y: number;
  height: number;
}

const ENOUGH = 64; // ops of a pixel that are looked at
const NAMED = { width: 34, height: 9 }; // from which on an op's name fits into it

export function drawLane(surface: Surface, scene: Scene, track: Track, lane: number, strip: Strip): void {
  const { palette, from, to, lit, width } = scene;
  const { ready, start, end, onPath } = track;
  const { kind, phase, name } = track.columns;
  const ops = track.laneOps[lane]!;
  const found = scene.found?.get(track);
  const fills = fillsOf(palette);
  const pixels = (width - GUTTER) / Math.max(to - from, 1);
  const dense = 1 / pixels;
  const narrow = new Narrow(surface, strip, palette.path);
  for (let at = track.firstAfter(lane, from); at < ops.length; at++) {
    const op = ops[at]!;
    if (ready[op]! > to) break;
    const left = GUTTER + (start[op]! - from) * pixels;
    if (start[op]! - ready[op]! > dense) {
      narrow.flush();
      const since = Math.max(GUTTER + (ready[op]! - from) * pixels, GUTTER);
      surface.hatch(since, strip.y + strip.height * 0.2, left - since, strip.height * 0.6, palette.wait);
    }
    const lasts = end[op]! - start[op]!;
    if (lasts === 0) continue;
    const plain = (found && !found[name[op]!]) || kind[op] === Kind.Wait;
    const fill = plain ? palette.raised : fills[kind[op]! * PHASES + phase[op]!]!;
    const onIt = lit && onPath[op] === 1;
    if (lasts * pixels >= 1) {
      narrow.flush();
      drawWide(surface, scene, strip, { track, op, left, right: left + lasts * pixels, fill, onPath: onIt });
    } else if (narrow.add(Math.floor(left), lasts, fill, onIt) > ENOUGH) {
      at = Math.max(at, track.firstAfter(lane, start[op]! + dense) - 1);
    }
  }
  narrow.flush();
}

interface Wide {
  track: Track;
  op: number;
  left: number;
  right: number;
  fill: string;
  onPath: boolean;
}

/** An op of a pixel or more: its waiting, its share of the critical path, its name where it fits. */
function drawWide(surface: Surface, { palette, width: border }: Scene, strip: Strip, wide: Wide): void {
  const { track, op, left, right, fill } = wide;
  const { y, height } = strip;
  const [begin, stop] = [Math.max(left, GUTTER), Math.min(right, border)];
  const width = stop - begin - (right - left > 3 ? 0.7 : 0);
  surface.rect(begin, y, width, height, fill);
  if (isWaiting(track.columns.kind[op]!)) surface.hatch(begin, y, width, height, palette.wait);
  if (wide.onPath) surface.rect(begin, y + height - LINE, width, LINE, palette.path);
  if (stop - begin <= NAMED.width || height <= NAMED.height) return;
  const style = { fill: inkOn(fill), size: 11, most: stop - begin - 8 };
  surface.text(shown(track.name(op), 120), begin + 4, y + height / 2, style);
}

/** A wait, or a thread without a core. */
const isWaiting = (kind: number): boolean => kind === Kind.Wait || kind === Kind.CoreWait;

const LINE = 3; // of the critical path

/** Ops narrower than a pixel share it: the longest gives its colour; alike pixels are one rectangle. */
class Narrow {
  #pixel = -1;
  #count = 0;
  #longest = 0;
  #fill = "";
  #onPath = false;
  #run = { from: 0, to: -1, fill: "", onPath: false };

  constructor(private readonly surface: Surface, private readonly strip: Strip, private readonly path: string) {}

  /** How many ops share the pixel so far. */
  add(pixel: number, lasts: number, fill: string, onPath: boolean): number {
    if (pixel !== this.#pixel) {
      this.#close();
      [this.#pixel, this.#count, this.#longest, this.#onPath] = [pixel, 0, 0, false];
    }
    if (lasts > this.#longest) [this.#longest, this.#fill] = [lasts, fill];
    if (onPath) this.#onPath = true;
    return ++this.#count;
  }

  flush(): void {
    this.#close();
    this.#paint();
    this.#pixel = -1;
  }

  /** The pixel becomes part of a run of alike ones. */
  #close(): void {
    const [pixel, run] = [this.#pixel, this.#run];
    if (pixel < 0) return;
    if (pixel === run.to && this.#fill === run.fill && this.#onPath === run.onPath) {
      run.to = pixel + 1;
      return;
    }
    this.#paint();
    this.#run = { from: pixel, to: pixel + 1, fill: this.#fill, onPath: this.#onPath };
  }

  #paint(): void {
    const { from, to, fill, onPath } = this.#run;
    if (to < from) return;
    const { y, height } = this.strip;
    this.surface.rect(from, y, to - from, height, fill);
    if (onPath) this.surface.rect(from, y + height - LINE, to - from, LINE, this.path);
    this.#run.to = -1;
  }
}

const PHASES = 8;
const fillsKnown = new WeakMap<Palette, string[]>();

/** The colour of an op by its kind and phase, at kind * PHASES + phase. */
function fillsOf(palette: Palette): string[] {
  let found = fillsKnown.get(palette);
  if (!found) {
    found = Array.from({ length: 16 * PHASES }, (_, at) => palette.series[opSeries(Math.floor(at / PHASES), at % PHASES)]!);
    fillsKnown.set(palette, found);
  }
  return found;
}

const inks = new Map<string, string>();

/** Black or white, whichever can be read on a colour. */
function inkOn(fill: string): string {
  const known = inks.get(fill);
  if (known) return known;
  const [r, g, b] = [1, 3, 5].map((at) => Number.parseInt(fill.slice(at, at + 2), 16) / 255);
  const light = 0.2126 * r! ** 2.2 + 0.7152 * g! ** 2.2 + 0.0722 * b! ** 2.2;
  const ink = light > 0.19 ? "#10151c" : "#ffffff";
  inks.set(fill, ink);
  return ink;
}
