/** Values on top of each other over time or over a setting: on the screen by uPlot, for files here. */

import uPlot from "uplot";
import { palette } from "./palette";
import type { Point, Surface } from "./surface";

export interface Stack {
  x: ArrayLike<number>;
  /** From the bottom to the top. */
  series: { name: string; colour: string; values: ArrayLike<number> }[];
  /** Vertical lines with words. */
  marks: { x: number; label: string }[];
  stepped: boolean;
  logarithmic: boolean;
  xText(value: number): string;
  yText(value: number): string;
}

/** The screen's chart. `shown` is asked at every draw, so marks move without a new chart. */
export function stackedPlot(place: HTMLElement, stack: Stack, height: number, shown: () => Stack): uPlot {
  const colours = palette();
  const axis = {
    stroke: colours.faint,
    grid: { stroke: colours.raised, width: 1 },
    ticks: { stroke: colours.line, width: 1 },
    font: "11px system-ui",
  };
  const paths = stack.stepped ? uPlot.paths.stepped!({ align: 1 }) : uPlot.paths.linear!();
  const series = [...stack.series].reverse().map(({ name, colour }, at) => ({
    label: name,
    stroke: colour,
    fill: colour,
    width: 0,
    paths,
    points: { show: false },
    value: (_: uPlot, __: number, ___: number, place: number | null) =>
      place === null ? "" : shown().yText(own(shown(), shown().series.length - 1 - at, place)),
  }));
  const options: uPlot.Options = {
    width: Math.max(place.clientWidth, 200),
    height,
    padding: [14, 8, 0, 0],
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    scales: {
      x: { time: false, distr: stack.logarithmic ? 3 : 1, range: (_, least, most) => [least, most] },
      y: { range: (_, __, most) => [0, (most || 1) * 1.06] },
    },
    axes: [
      { ...axis, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : shown().xText(tick))) },
      { ...axis, size: 66, values: (_, ticks) => ticks.map((tick) => shown().yText(tick)) },
    ],
    series: [{ label: "at", value: (_, value) => (value === null ? "" : shown().xText(value)) }, ...series],
    hooks: { draw: [(plot) => drawMarks(plot, shown())] },
  };
  return new uPlot(options, dataOf(stack), place);
}

/** Sums from the bottom, the highest first, as areas must be drawn. */
export function dataOf({ x, series }: Stack): uPlot.AlignedData {
  const sums: number[][] = [];
  series.forEach(({ values }, at) => sums.push(Array.from(values, (v, i) => v + (sums[at - 1]?.[i] ?? 0))));
  return [Array.from(x), ...sums.reverse()] as uPlot.AlignedData;
}

const own = (stack: Stack, at: number, place: number): number => stack.series[at]!.values[place] ?? 0;

function drawMarks(plot: uPlot, { marks }: Stack): void {
  const { ctx, bbox } = plot;
  const scale = devicePixelRatio || 1;
  ctx.save();
  ctx.font = `${11 * scale}px system-ui`;
  for (const { x, label } of marks) {
    const at = plot.valToPos(x, "x", true);
    if (!(at >= bbox.left - 1 && at <= bbox.left + bbox.width + 1)) continue;
    ctx.strokeStyle = ctx.fillStyle = palette().ink;
    ctx.lineWidth = 1.5 * scale;
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    const right = at > bbox.left + 0.7 * bbox.width;
    ctx.textAlign = right ? "right" : "left";
    ctx.fillText(label, at + (right ? -4 : 4) * scale, bbox.top - 3 * scale);
  }
  ctx.restore();
}

/** The same for a file. */
export function drawStack(surface: Surface, stack: Stack, width: number, height: number): void {
  const colours = palette();
  const [left, right, top, bottom] = [70, 10, 16, 44];
  const along = (value: number) => (stack.logarithmic ? Math.log(value) : value);
  const xs = Array.from(stack.x);
  const [first, last] = [along(xs[0] ?? 0), along(xs.at(-1) ?? 1)];
  const sums = dataOf(stack).slice(1) as number[][];
  const most = 1.06 * Math.max(1, ...(sums[0] ?? []));
  const px = (value: number) => left + ((along(value) - first) / (last - first || 1)) * (width - left - right);
  const py = (value: number) => height - bottom - (value / most) * (height - top - bottom);
  sums.forEach((values, at) => {
    const points: Point[] = values.flatMap((value, i): Point[] => {
      const here: Point = [px(xs[i]!), py(value)];
      return stack.stepped && i ? [[here[0], py(values[i - 1]!)], here] : [here];
    });
    points.push([px(xs.at(-1)!), py(0)], [px(xs[0]!), py(0)]);
    surface.area(points, stack.series.at(-1 - at)!.colour);
  });
  const style = { fill: colours.faint, size: 11 };
  for (let i = 0; i <= 4; i++) {
    surface.text(stack.yText((most * i) / 4), left - 6, py((most * i) / 4), { ...style, align: "right" });
    const at = first + ((last - first) * i) / 4;
    const value = stack.logarithmic ? Math.exp(at) : at;
    surface.text(stack.xText(value), px(value), height - bottom + 12, { ...style, align: "center" });
  }
  for (const { x, label } of stack.marks) {
    surface.lines([[px(x), top], [px(x), height - bottom]], colours.ink, 1.5);
    surface.text(label, px(x) + 4, top - 6, { fill: colours.ink, size: 11 });
  }
  let at = left;
  for (const { name, colour } of stack.series) {
    surface.rect(at, height - 14, 10, 10, colour);
    surface.text(name, at + 14, height - 9, style);
    at += 24 + 7 * name.length;
  }
}
