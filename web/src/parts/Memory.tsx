/** Memory of the fullest rank over time by category, with the op at the peak. */

import { useMemo } from "preact/hooks";
import { Figure } from "../charts/Figure";
import { palette, seriesColour } from "../charts/palette";
import { drawStack, type Stack } from "../charts/stacked";
import { Stacked } from "../charts/Stacked";
import type { MemoryData } from "../contents";
import { duration, shown, size } from "../format";
import { usePage } from "./App";

const MOST_POINTS = 4000;

export function Memory() {
  const { model, goTo, theme } = usePage();
  const { memory, missing } = model.contents;
  const stack = useMemo(() => memory && stackOf(memory), [memory, theme]);
  if (!memory || !stack) {
    return (
      <section class="greyed" aria-labelledby="memory-title">
        <h2 id="memory-title">Memory over time</h2>
        <p>{missing.memory}</p>
      </section>
    );
  }
  const track = model.tracks[0]!;
  const at = memory.categories.map((name, place) => [name, heldAtPeak(memory, place)] as const);
  const most = [...at].sort((a, b) => b[1] - a[1]);
  const told = most.filter(([, held]) => held).map(([name, held]) => `${name} ${size(held)}`).join(", ");
  return (
    <section aria-labelledby="memory-title">
      <Figure
        name="memory"
        title="Memory over time"
        words={`Rank ${memory.rank} holds most: ${size(memory.peak_bytes)}, of which ${told}.`}
        drawing={() => ({ width: 800, height: 300, draw: (surface) => drawStack(surface, stack, 800, 300) })}
        table={() => ({
          head: ["time (ns)", ...memory.categories.map((name) => `${name} (bytes)`)],
          rows: Array.from(memory.time_ns, (time, i) => [time, ...memory.held_bytes.map((held) => held[i]!)]),
        })}
      >
        <p class="note">
          Rank {memory.rank} holds most: {size(memory.peak_bytes)}
          {memory.capacity_bytes > 0 && ` of ${size(memory.capacity_bytes)}`}, at{" "}
          <button class="link" onClick={() => goTo({ op: memory.op })}>{shown(track.name(memory.op), 60)}</button>
          {" "}({duration(memory.at_ns)}): {told}.
        </p>
        <Stacked stack={stack} height={220} />
      </Figure>
    </section>
  );
}

function heldAtPeak({ time_ns, held_bytes, at_ns, peak_bytes }: MemoryData, place: number): number {
  for (let i = 0; i < time_ns.length; i++) {
    if (time_ns[i] !== at_ns) continue;
    const sum = held_bytes.reduce((all, held) => all + held[i]!, 0);
    if (sum === peak_bytes) return held_bytes[place]![i]!;
  }
  return 0;
}

/** Of many moments, those at which most was held in each stretch. */
function stackOf(memory: MemoryData): Stack {
  const kept = thinned(memory);
  const pick = (values: ArrayLike<number>) => kept.map((i) => values[i]!);
  return {
    x: pick(memory.time_ns),
    series: memory.categories.map((name, at) => ({
      name, colour: seriesColour(palette(), at), values: pick(memory.held_bytes[at]!),
    })),
    marks: [{ x: memory.at_ns, label: "peak" }],
    stepped: true,
    logarithmic: false,
    xText: duration,
    yText: size,
  };
}

function thinned({ time_ns, held_bytes }: MemoryData): number[] {
  const stride = Math.max(1, Math.ceil(time_ns.length / MOST_POINTS));
  const sum = (i: number) => held_bytes.reduce((all, held) => all + held[i]!, 0);
  const found: number[] = [];
  for (let from = 0; from < time_ns.length; from += stride) {
    let best = from;
    for (let i = from; i < Math.min(from + stride, time_ns.length); i++) if (sum(i) > sum(best)) best = i;
    found.push(best);
  }
  return found;
}
