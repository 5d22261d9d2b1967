/** A stacked chart that takes new values without being made anew. */

import { useEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";
import { usePage } from "../parts/App";
import { dataOf, type Stack, stackedPlot } from "./stacked";

export function Stacked({ stack, height }: { stack: Stack; height: number }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const current = useRef(stack);
  const data = useRef(stack.x);
  const { theme } = usePage();
  current.current = stack;
  const names = stack.series.map(({ name }) => name).join("|") + stack.logarithmic;

  useEffect(() => {
    data.current = current.current.x;
    const made = stackedPlot(place.current!, current.current, height, () => current.current);
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: Math.max(place.current!.clientWidth, 200), height }));
    watch.observe(place.current!);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, [theme, names, height]);

  useEffect(() => {
    if (!plot.current) return;
    if (data.current === stack.x) plot.current.redraw(false, true);
    else plot.current.setData(dataOf(stack));
    data.current = stack.x;
  }, [stack]);

  return <div class="plot" ref={place} aria-hidden="true" />;
}
