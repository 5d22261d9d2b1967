/**
 * What a large picture is drawn on: a canvas of WebGL2 behind a 2D canvas. Where there is no WebGL2,
 * while its context is lost, and for print the 2D canvas takes all of it.
 */

import { LayeredSurface } from "./layered";
import { openWebGl, Rectangles } from "./rectangles";
import { CanvasSurface, type Surface } from "./surface";

export class Pane {
  readonly #gl: WebGL2RenderingContext | null;
  readonly #upper: CanvasSurface;
  #rectangles: Rectangles | null = null;
  #printing = false;
  #stop: (() => void)[] = [];

  /** `changed` is called when all must be drawn anew. */
  constructor(
    private readonly front: HTMLCanvasElement,
    private readonly back: HTMLCanvasElement,
    private readonly changed: () => void,
  ) {
    this.#gl = openWebGl(back);
    this.#upper = new CanvasSurface(front.getContext("2d", { alpha: this.#gl !== null })!);
    if (this.#gl) this.#rectangles = new Rectangles(this.#gl);
    this.#listen(back, "webglcontextlost", (event) => this.#lose(event));
    this.#listen(back, "webglcontextrestored", () => this.#restore());
    this.#listen(window, "beforeprint", () => this.#print(true));
    this.#listen(window, "afterprint", () => this.#print(false));
  }

  /** Both canvases take this size, in units of which the screen has `devicePixelRatio` pixels. */
  draw(width: number, height: number, picture: (surface: Surface) => void): void {
    const scale = devicePixelRatio || 1;
    const rectangles = this.#printing ? null : this.#rectangles;
    this.back.style.visibility = rectangles ? "visible" : "hidden";
    for (const canvas of rectangles ? [this.front, this.back] : [this.front]) fit(canvas, width, height, scale);
    const { context } = this.#upper;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    if (rectangles) {
      context.clearRect(0, 0, width, height);
      picture(new LayeredSurface(rectangles, this.#upper));
      rectangles.flush(scale);
    } else {
      picture(this.#upper);
    }
  }

  close(): void {
    this.#stop.forEach((each) => each());
    this.#gl?.getExtension("WEBGL_lose_context")?.loseContext();
  }

  #lose(event: Event): void {
    event.preventDefault(); // else it is never restored
    this.#rectangles = null;
    this.changed();
  }

  #restore(): void {
    this.#rectangles = new Rectangles(this.#gl!);
    this.changed();
  }

  #print(begins: boolean): void {
    this.#printing = begins;
    this.changed();
  }

  #listen(target: EventTarget, type: string, act: (event: Event) => void): void {
    target.addEventListener(type, act);
    this.#stop.push(() => target.removeEventListener(type, act));
  }
}

function fit(canvas: HTMLCanvasElement, width: number, height: number, scale: number): void {
  const wanted = [Math.round(width * scale), Math.round(height * scale)] as const;
  if (canvas.width === wanted[0] && canvas.height === wanted[1]) return;
  [canvas.width, canvas.height] = wanted;
  canvas.style.height = `${height}px`;
}
