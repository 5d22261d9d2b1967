/** Something to draw on: a canvas on the screen, or an SVG text for a file. One drawing serves both. */

export type Point = [number, number];

export interface TextStyle {
  fill: string;
  size?: number;
  align?: "left" | "right" | "center";
  bold?: boolean;
  most?: number;
}

export interface Surface {
  rect(x: number, y: number, width: number, height: number, fill: string): void;
  /** Diagonal strokes: the texture of waiting. */
  hatch(x: number, y: number, width: number, height: number, stroke: string): void;
  text(text: string, x: number, y: number, style: TextStyle): void;
  lines(points: Point[], stroke: string, width: number, dash?: number[]): void;
  area(points: Point[], fill: string): void;
  clip(x: number, y: number, width: number, height: number, draw: () => void): void;
  /** Drawn last, over all else: a surface of two layers keeps it in the upper one. */
  front(draw: () => void): void;
}

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

export class CanvasSurface implements Surface {
  #hatches = new Map<string, CanvasPattern>();

  constructor(readonly context: CanvasRenderingContext2D) {}

  rect(x: number, y: number, width: number, height: number, fill: string): void {
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, width, height);
  }

  hatch(x: number, y: number, width: number, height: number, stroke: string): void {
    const pattern = this.#hatches.get(stroke) ?? this.context.createPattern(hatchTile(stroke), "repeat")!;
    this.#hatches.set(stroke, pattern);
    this.context.fillStyle = pattern;
    this.context.fillRect(x, y, width, height);
  }

  text(text: string, x: number, y: number, style: TextStyle): void {
    const { context } = this;
    context.font = `${style.bold ? "600 " : ""}${style.size ?? 12}px ${FONT}`;
    context.fillStyle = style.fill;
    context.textAlign = style.align ?? "left";
    context.textBaseline = "middle";
    context.fillText(style.most ? shortened(context, text, style.most) : text, x, y);
  }

  lines(points: Point[], stroke: string, width: number, dash: number[] = []): void {
    const { context } = this;
    context.strokeStyle = stroke;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.beginPath();
    points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
    context.setLineDash([]);
  }

  area(points: Point[], fill: string): void {
    this.context.fillStyle = fill;
    this.context.beginPath();
    points.forEach(([x, y], i) => (i ? this.context.lineTo(x, y) : this.context.moveTo(x, y)));
    this.context.fill();
  }

  clip(x: number, y: number, width: number, height: number, draw: () => void): void {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    draw();
    this.context.restore();
  }

  front(draw: () => void): void {
    draw();
  }
}

/** The side of the tile that hatching repeats. */
export const TILE = 6;

export function hatchTile(stroke: string): HTMLCanvasElement {
  const tile = document.createElement("canvas");
  tile.width = tile.height = TILE;
  const brush = tile.getContext("2d")!;
  brush.strokeStyle = stroke;
  brush.lineWidth = 1.2;
  brush.beginPath();
  for (const at of [-TILE, 0, TILE]) {
    brush.moveTo(at, TILE);
    brush.lineTo(at + TILE, 0);
  }
  brush.stroke();
  return tile;
}

const measured = new Map<string, number>();

/** The text, or as much of it as fits. */
function shortened(context: CanvasRenderingContext2D, text: string, most: number): string {
  const key = `${context.font} `;
  const each = measured.get(key) ?? context.measureText("abcdefghij0123456789").width / 20;
  measured.set(key, each);
  const fits = Math.floor(most / each);
  return text.length <= fits ? text : fits < 3 ? "" : `${text.slice(0, fits - 1)}…`;
}

/** SVG by hand: every text is escaped. */
export class SvgSurface implements Surface {
  #parts: string[] = [];
  #clips = 0;
  #hatches = new Map<string, string>();

  constructor(readonly width: number, readonly height: number) {}

  rect(x: number, y: number, width: number, height: number, fill: string): void {
    this.#parts.push(`<rect x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}" fill="${fill}"/>`);
  }

  hatch(x: number, y: number, width: number, height: number, stroke: string): void {
    const id = this.#hatches.get(stroke) ?? `h${this.#hatches.size}`;
    this.#hatches.set(stroke, id);
    this.rect(x, y, width, height, `url(#${id})`);
  }

  text(text: string, x: number, y: number, style: TextStyle): void {
    const anchor = { left: "start", right: "end", center: "middle" }[style.align ?? "left"];
    const size = style.size ?? 12;
    const fits = style.most ? Math.floor(style.most / (size * 0.55)) : Infinity;
    const kept = text.length <= fits ? text : fits < 3 ? "" : `${text.slice(0, fits - 1)}…`;
    if (!kept) return;
    this.#parts.push(
      `<text x="${n(x)}" y="${n(y)}" fill="${style.fill}" font-size="${size}" text-anchor="${anchor}" ` +
        `dominant-baseline="central"${style.bold ? ' font-weight="600"' : ""}>${escaped(kept)}</text>`,
    );
  }

  lines(points: Point[], stroke: string, width: number, dash: number[] = []): void {
    const path = points.map(([x, y]) => `${n(x)},${n(y)}`).join(" ");
    const dashes = dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : "";
    this.#parts.push(`<polyline points="${path}" fill="none" stroke="${stroke}" stroke-width="${width}"${dashes}/>`);
  }

  area(points: Point[], fill: string): void {
    this.#parts.push(`<polygon points="${points.map(([x, y]) => `${n(x)},${n(y)}`).join(" ")}" fill="${fill}"/>`);
  }

  clip(x: number, y: number, width: number, height: number, draw: () => void): void {
    const id = `c${this.#clips++}`;
    this.#parts.push(
      `<clipPath id="${id}"><rect x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}"/></clipPath>`,
      `<g clip-path="url(#${id})">`,
    );
    draw();
    this.#parts.push("</g>");
  }

  front(draw: () => void): void {
    draw();
  }

  toString(): string {
    const hatches = [...this.#hatches].map(
      ([stroke, id]) =>
        `<pattern id="${id}" width="6" height="6" patternUnits="userSpaceOnUse">` +
        `<path d="M-6,6 l6,-6 M0,6 l6,-6 M6,6 l6,-6" stroke="${stroke}" stroke-width="1.2"/></pattern>`,
    );
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" ` +
      `viewBox="0 0 ${this.width} ${this.height}" font-family="system-ui, sans-serif">` +
      `<defs>${hatches.join("")}</defs>${this.#parts.join("")}</svg>`
    );
  }
}

const n = (value: number): string => String(Math.round(value * 100) / 100);

function escaped(text: string): string {
  const plain = text.replace(/[^\P{C}]/gu, "\u{fffd}");
  return plain.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}
