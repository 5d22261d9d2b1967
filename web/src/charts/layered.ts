/** A surface of two layers: rectangles by WebGL2, texts and lines on a canvas in front of them. */

import type { Rectangles } from "./rectangles";
import type { CanvasSurface, Point, Surface, TextStyle } from "./surface";

interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

const EVERYWHERE: Box = { left: -1e9, top: -1e9, right: 1e9, bottom: 1e9 };

export class LayeredSurface implements Surface {
  #clip = EVERYWHERE;
  #inFront = false;

  constructor(private readonly back: Rectangles, private readonly upper: CanvasSurface) {}

  rect(x: number, y: number, width: number, height: number, fill: string): void {
    if (this.#inFront) this.upper.rect(x, y, width, height, fill);
    else this.#add(x, y, width, height, fill, false);
  }

  hatch(x: number, y: number, width: number, height: number, stroke: string): void {
    if (this.#inFront) this.upper.hatch(x, y, width, height, stroke);
    else this.#add(x, y, width, height, stroke, true);
  }

  text(text: string, x: number, y: number, style: TextStyle): void {
    this.upper.text(text, x, y, style);
  }

  lines(points: Point[], stroke: string, width: number, dash?: number[]): void {
    this.upper.lines(points, stroke, width, dash);
  }

  area(points: Point[], fill: string): void {
    this.upper.area(points, fill);
  }

  clip(x: number, y: number, width: number, height: number, draw: () => void): void {
    const before = this.#clip;
    this.#clip = {
      left: Math.max(before.left, x), top: Math.max(before.top, y),
      right: Math.min(before.right, x + width), bottom: Math.min(before.bottom, y + height),
    };
    this.upper.clip(x, y, width, height, draw);
    this.#clip = before;
  }

  front(draw: () => void): void {
    this.#inFront = true;
    draw();
    this.#inFront = false;
  }

  #add(x: number, y: number, width: number, height: number, colour: string, hatched: boolean): void {
    const { left, top, right, bottom } = this.#clip;
    const [x0, y0] = [Math.max(x, left), Math.max(y, top)];
    const [wide, tall] = [Math.min(x + width, right) - x0, Math.min(y + height, bottom) - y0];
    if (wide > 0 && tall > 0) this.back.add(x0, y0, wide, tall, colour, hatched);
  }
}
