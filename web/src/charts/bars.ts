/** What the page shows as a table of times, as a picture: a bar for each row, for SVG and PNG. */

import { shown } from "../format";
import type { Drawing } from "./Figure";
import { palette } from "./palette";
import type { Surface } from "./surface";

export interface Bar {
  name: string;
  value: number;
  text: string;
}

export interface Bars {
  title: string;
  bars: Bar[];
}

const WIDTH = 720;
const ROW = 20;
const NAME = 320;
const FIGURE = 90;

export function barsDrawing(groups: Bars[]): Drawing {
  const filled = groups.filter(({ bars }) => bars.length);
  const rows = filled.reduce((sum, { bars }) => sum + bars.length + 1.5, 0);
  return { width: WIDTH, height: Math.ceil(rows * ROW), draw: (surface) => drawAll(surface, filled) };
}

function drawAll(surface: Surface, groups: Bars[]): void {
  let y = 0;
  for (const group of groups) y = drawGroup(surface, group, y) + ROW / 2;
}

/** From `y` on down; where it ends. What is negative is drawn pale. */
function drawGroup(surface: Surface, { title, bars }: Bars, y: number): number {
  const { ink, faint, series } = palette();
  const most = Math.max(1, ...bars.map(({ value }) => Math.abs(value)));
  surface.text(title, 0, y + ROW / 2, { fill: faint, size: 11 });
  for (const { name, value, text } of bars) {
    y += ROW;
    const wide = Math.max(1, ((WIDTH - NAME - FIGURE) * Math.abs(value)) / most);
    surface.text(shown(name, 46), 0, y + ROW / 2, { fill: ink, most: NAME - 10 });
    surface.rect(NAME, y + 4, wide, ROW - 8, value < 0 ? faint : series.compute!);
    surface.text(text, WIDTH, y + ROW / 2, { fill: ink, align: "right" });
  }
  return y + ROW;
}
