/** A chart with its caption, its words for those who do not see it, and its exports. */

import type { ComponentChildren } from "preact";
import { palette } from "./palette";
import { CanvasSurface, type Surface, SvgSurface } from "./surface";

export interface Drawing {
  width: number;
  height: number;
  draw(surface: Surface): void;
}

export interface Table {
  head: string[];
  rows: (string | number)[][];
}

interface Props {
  name: string;
  title: string;
  /** What the chart says, in words. */
  words: string;
  drawing?: () => Drawing;
  table: () => Table;
  children: ComponentChildren;
}

export function Figure({ name, title, words, drawing, table, children }: Props) {
  return (
    <figure class="figure" aria-labelledby={`${name}-title`} aria-describedby={`${name}-words`}>
      <figcaption>
        <h2 id={`${name}-title`}>{title}</h2>
        <span class="exports" role="group" aria-label={`Export ${title}`}>
          {drawing && <button onClick={() => saveSvg(name, drawing())}>SVG</button>}
          {drawing && <button onClick={() => savePng(name, drawing())}>PNG</button>}
          <button onClick={() => saveCsv(name, table())}>CSV</button>
        </span>
      </figcaption>
      <p id={`${name}-words`} class="for-readers">{words}</p>
      {children}
    </figure>
  );
}

export function svgOf({ width, height, draw }: Drawing): string {
  const surface = new SvgSurface(width, height);
  surface.rect(0, 0, width, height, palette().ground);
  draw(surface);
  return surface.toString();
}

/** Fields as RFC 4180 has them; one that a spreadsheet would take for a formula is made text. */
export function csvOf({ head, rows }: Table): string {
  return [head, ...rows].map((row) => row.map(field).join(",")).join("\r\n");
}

function field(value: string | number): string {
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const saveSvg = (name: string, drawing: Drawing) => save(`${name}.svg`, "image/svg+xml", svgOf(drawing));
export const saveCsv = (name: string, table: Table) => save(`${name}.csv`, "text/csv", csvOf(table));

function savePng(name: string, { width, height, draw }: Drawing): void {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  const context = canvas.getContext("2d")!;
  context.scale(2, 2);
  const surface = new CanvasSurface(context);
  surface.rect(0, 0, width, height, palette().ground);
  draw(surface);
  canvas.toBlob((blob) => blob && save(`${name}.png`, "image/png", blob));
}

function save(name: string, type: string, data: BlobPart): void {
  const link = document.createElement("a");
  const address = URL.createObjectURL(new Blob([data], { type }));
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
