/** A canvas that draws itself anew when its width, the colours or what it shows changes. */

import { useEffect, useRef } from "preact/hooks";
import { palette } from "../charts/palette";
import { CanvasSurface, type Surface } from "../charts/surface";
import { usePage } from "./App";

interface Props {
  height: number;
  draw(surface: Surface, width: number): void;
}

export function Chart({ height, draw }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { theme } = usePage();
  useEffect(() => {
    const paint = () => painted(canvas.current!, height, draw);
    paint();
    const watch = new ResizeObserver(paint);
    watch.observe(canvas.current!.parentElement!);
    return () => watch.disconnect();
  }, [height, draw, theme]);
  return <canvas class="chart" ref={canvas} aria-hidden="true" />;
}

function painted(canvas: HTMLCanvasElement, height: number, draw: Props["draw"]): void {
  const width = canvas.parentElement!.clientWidth;
  const scale = devicePixelRatio || 1;
  [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
  [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  const surface = new CanvasSurface(context);
  surface.rect(0, 0, width, height, palette().ground);
  draw(surface, width);
}

/** Series and their names; waiting has its texture here too. */
export function Legend({ items }: { items: [string, string][] }) {
  const colours = palette();
  return (
    <ul class="legend" aria-hidden="true">
      {items.map(([series, name]) => (
        <li key={name}>
          <i class={series === "waiting" ? "hatched" : ""} style={{ background: series === "waiting" ? undefined : colours.series[series] ?? series }} />
          {name}
        </li>
      ))}
    </ul>
  );
}
