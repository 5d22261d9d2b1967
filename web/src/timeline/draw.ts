/** Draws rows of timelines on a surface. */

import type { Point, Surface } from "../charts/surface";
import { duration, shown } from "../format";
import type { Track } from "../track";
import { drawLane } from "./lane";
import { type Row } from "./rows";
import { AXIS, GUTTER, scale, type Scene } from "./scene";

export function drawTimeline(surface: Surface, scene: Scene): void {
  const { width, height, palette } = scene;
  surface.rect(0, 0, width, height, palette.ground);
  const x = scale(scene);
  grid(surface, scene, x);
  surface.clip(0, AXIS, width, height - AXIS, () => {
    for (const row of visible(scene)) drawRow(surface, scene, row);
  });
  surface.front(() => {
    surface.clip(GUTTER, AXIS, width - GUTTER, height - AXIS, () => over(surface, scene, x));
    axis(surface, scene, x);
  });
}

export function visible({ rows, scroll, height }: Scene): Row[] {
  return rows.filter(({ y, height: tall }) => y + tall > scroll && y < scroll + height - AXIS);
}

function drawRow(surface: Surface, scene: Scene, row: Row): void {
  const { palette, width } = scene;
  const y = AXIS + row.y - scene.scroll;
  if (row.what === "track") {
    surface.rect(0, y, width, row.height, palette.raised);
    surface.text(shown(row.label, 80), 8, y + row.height / 2, { fill: palette.ink, bold: true });
    return;
  }
  const inset = row.what === "rank" ? 8 : 24;
  const fold = row.what === "rank" ? (row.folded ? "▸ " : "▾ ") : row.pinned ? "◆ " : "";
  surface.rect(0, y + row.height - 1, width, 1, row.what === "rank" ? palette.line : palette.raised);
  surface.text(`${fold}${shown(row.label, 80)}`, inset, y + row.height / 2, {
    fill: row.what === "rank" ? palette.ink : palette.faint,
    size: 11,
    bold: row.what === "rank",
    most: GUTTER - inset - 6,
  });
  if (row.what === "rank" && !row.folded) return;
  const each = (row.height - 4) / row.lanes.length;
  surface.clip(GUTTER, y, width - GUTTER, row.height, () => {
    row.lanes.forEach((lane, place) => {
      drawLane(surface, scene, row.track, lane, { y: y + 2 + place * each, height: Math.max(1, each - 0.5) });
    });
  });
}

function over(surface: Surface, scene: Scene, x: (moment: number) => number): void {
  const { palette, chosen, range, cursor, height } = scene;
  if (range) {
    const [a, b] = [x(Math.min(...range)), x(Math.max(...range))];
    surface.rect(a, AXIS, b - a, height, `${palette.accent}2e`);
    surface.lines([[a, AXIS], [a, height]], palette.accent, 1);
    surface.lines([[b, AXIS], [b, height]], palette.accent, 1);
  }
  if (scene.lit) pathLinks(surface, scene, x);
  if (chosen) arrows(surface, scene, chosen.track, chosen.op, x);
  if (cursor !== null) {
    surface.lines([[x(cursor), AXIS], [x(cursor), height]], palette.faint, 1, [3, 3]);
  }
}

const rowsKnown = new WeakMap<Row[], Map<Track, Row[]>>();

/** By timeline and lane: the first row that shows it. */
function rowsByLane(rows: Row[]): Map<Track, Row[]> {
  let found = rowsKnown.get(rows);
  if (!found) {
    found = new Map();
    for (const row of rows) {
      if (row.what !== "lane" && !row.folded) continue;
      const mine = found.get(row.track) ?? [];
      for (const lane of row.lanes) mine[lane] ??= row;
      found.set(row.track, mine);
    }
    rowsKnown.set(rows, found);
  }
  return found;
}

/** Where an op is drawn, or null where its lane is not on the screen. */
export function boxOf(scene: Scene, track: Track, op: number, x: (moment: number) => number) {
  const lane = track.columns.lane[op]!;
  const row = rowsByLane(scene.rows).get(track)?.[lane];
  if (!row) return null;
  const each = (row.height - 4) / row.lanes.length;
  const y = AXIS + row.y - scene.scroll + 2 + row.lanes.indexOf(lane) * each;
  return { left: x(track.start[op]!), right: x(track.end[op]!), y, height: Math.max(1, each - 0.5) };
}

const MOST_LINKS = 400;

/** The critical path from lane to lane. */
function pathLinks(surface: Surface, scene: Scene, x: (moment: number) => number): void {
  for (const track of new Set(scene.rows.map((row) => row.track))) {
    const { path } = track;
    let drawn = 0;
    for (let i = 1; i < path.length && drawn < MOST_LINKS; i++) {
      const [a, b] = [path[i - 1]!, path[i]!];
      if (track.end[a]! < scene.from || track.start[b]! > scene.to) continue;
      if (track.columns.lane[a] === track.columns.lane[b]) continue;
      const [from, to] = [boxOf(scene, track, a, x), boxOf(scene, track, b, x)];
      if (!from || !to) continue;
      drawn++;
      surface.lines([[from.right, from.y + from.height - 1], [to.left, to.y + to.height - 1]], scene.palette.path, 1);
    }
  }
}

const MOST_ARROWS = 12; // of many causes those that ended last

function arrows(
  surface: Surface, scene: Scene, track: Track, op: number, x: (moment: number) => number,
): void {
  const mine = boxOf(scene, track, op, x);
  if (!mine) return;
  const { ink, accent } = scene.palette;
  const middle = mine.y + mine.height / 2;
  const causes = track.waitsFor(op).sort((a, b) => track.end[b]! - track.end[a]!);
  for (const other of causes.slice(0, MOST_ARROWS)) {
    const box = boxOf(scene, track, other, x);
    if (box) arrow(surface, [box.right, box.y + box.height / 2], [mine.left, middle], accent);
  }
  for (const other of track.waitedForBy(op).slice(0, MOST_ARROWS)) {
    const box = boxOf(scene, track, other, x);
    if (box) arrow(surface, [mine.right, middle], [box.left, box.y + box.height / 2], accent);
  }
  for (const other of track.members(op)) {
    const box = other === op ? null : boxOf(scene, track, other, x);
    if (box) surface.lines([[mine.left, middle], [box.left, box.y + box.height / 2]], ink, 1, [2, 3]);
  }
  const wide = Math.max(2, mine.right - mine.left);
  outline(surface, mine.left - 1, mine.y - 1, wide + 2, mine.height + 2, ink);
}

function outline(surface: Surface, x: number, y: number, w: number, h: number, ink: string): void {
  surface.lines([[x, y], [x + w, y], [x + w, y + h], [x, y + h], [x, y]], ink, 2);
}

function arrow(surface: Surface, from: Point, to: Point, colour: string): void {
  surface.lines([from, to], colour, 1.5);
  const angle = Math.atan2(to[1] - from[1], to[0] - from[0]);
  const back = (turn: number): Point => [
    to[0] - 7 * Math.cos(angle + turn), to[1] - 7 * Math.sin(angle + turn),
  ];
  surface.area([to, back(0.4), back(-0.4)], colour);
}

function ticks({ from, to, width }: Scene): number[] {
  const wanted = (to - from) / Math.max(2, (width - GUTTER) / 110);
  const power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1)));
  const step = power * ([1, 2, 5, 10].find((each) => each * power >= wanted) ?? 10);
  const found: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}

function grid(surface: Surface, scene: Scene, x: (moment: number) => number): void {
  for (const tick of ticks(scene)) surface.rect(x(tick), AXIS, 1, scene.height, scene.palette.raised);
  const first = scene.rows.find((row) => row.what === "track")?.track;
  for (const [, begin] of first?.steps ?? []) {
    if (begin > scene.from && begin < scene.to) surface.rect(x(begin), AXIS, 1, scene.height, scene.palette.line);
  }
}

function axis(surface: Surface, scene: Scene, x: (moment: number) => number): void {
  const { palette, width } = scene;
  surface.rect(0, 0, width, AXIS, palette.ground);
  surface.rect(0, AXIS - 1, width, 1, palette.line);
  for (const tick of ticks(scene)) {
    if (x(tick) < width - 30) surface.text(tick ? duration(tick) : "0", x(tick) + 3, AXIS / 2, { fill: palette.faint, size: 11 });
  }
  if (scene.cursor !== null) {
    const at = Math.min(x(scene.cursor), width - 70);
    surface.rect(at, 2, 70, AXIS - 5, palette.ink);
    surface.text(duration(scene.cursor), at + 35, AXIS / 2 - 1, { fill: palette.ground, size: 11, align: "center" });
  }
}
