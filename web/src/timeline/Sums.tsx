/** What lies in a selected range: time by kind on each timeline. */

import { count, duration, share } from "../format";
import { useStore } from "../parts/App";
import type { Track } from "../track";
import { Kind, KINDS } from "../words";

export function Sums({ tracks }: { tracks: Track[] }) {
  const range = useStore((state) => state.range);
  if (!range) return null;
  const [from, to] = [Math.min(...range), Math.max(...range)];
  return (
    <div class="panel" role="status">
      <h3>{duration(to - from)} selected</h3>
      <table>
        <thead><tr><th>timeline</th><th>kind</th><th class="number">ops</th><th class="number">time, all lanes</th><th class="number">of one lane</th></tr></thead>
        <tbody>
          {tracks.flatMap((track) =>
            sumsOf(track, from, to).map(({ name, ops, ns }) => (
              <tr key={track.kind + name}>
                <td>{track.kind}</td><td>{name}</td><td class="number">{count(ops)}</td>
                <td class="number">{duration(ns)}</td><td class="number">{share(ns, to - from)}</td>
              </tr>
            )),
          )}
        </tbody>
      </table>
    </div>
  );
}

export interface Sum {
  name: string;
  ops: number;
  ns: number;
}

/** Waiting for partners apart from all else, the longest first. */
export function sumsOf(track: Track, from: number, to: number): Sum[] {
  const sums = new Map<string, Sum>();
  const add = (name: string, begin: number, end: number) => {
    const within = Math.min(end, to) - Math.max(begin, from);
    if (within <= 0) return;
    const sum = sums.get(name) ?? { name, ops: 0, ns: 0 };
    sums.set(name, { name, ops: sum.ops + 1, ns: sum.ns + within });
  };
  track.laneOps.forEach((ops, lane) => {
    for (let at = track.firstAfter(lane, from); at < ops.length; at++) {
      const op = ops[at]!;
      if (track.ready[op]! > to) break;
      const kind = track.columns.kind[op]!;
      if (kind === Kind.Marker) continue;
      add(KINDS[kind]!, track.start[op]!, track.end[op]!);
      add("waiting for partners", track.ready[op]!, track.start[op]!);
    }
  });
  return [...sums.values()].sort((a, b) => b.ns - a.ns);
}
