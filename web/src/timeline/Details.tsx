/** All about the chosen op: what it is, how long it took each time, what it waited for. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { count, duration, shown, size } from "../format";
import { usePage, useStore } from "../parts/App";
import type { Track } from "../track";
import { BASES, COLLECTIVES, DTYPES, KINDS, LINKS, PHASES } from "../words";

const MOST = 8;

export function Details({ tracks }: { tracks: Track[] }) {
  const { store } = usePage();
  const chosen = useStore((state) => state.chosen);
  const track = (chosen && tracks.find((each) => each.kind === chosen.track)) ?? null;
  useTimesOf(track);
  if (!chosen || !track || chosen.op >= track.count) {
    return <div class="panel quietly" role="status">Nothing is chosen. Click an op, or press an arrow key in the timeline.</div>;
  }
  const { op } = chosen;
  return (
    <div class="panel details" role="status">
      <h3>
        {shown(track.name(op)) || "(no name)"}
        <button class="quiet" onClick={() => store.set({ chosen: null })} aria-label="Close">×</button>
      </h3>
      <dl class="facts">
        {factsOf(track, op).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
      </dl>
      <div class="columns">
        <Ops title="waited for" then="the last of them" track={track} ops={causes(track, op)} />
        <Ops title="was waited for by" then="began at once" track={track} ops={track.waitedForBy(op).map((other) => [other, "", track.start[other]! === track.end[op]])} />
        <Ops title="met" then="" track={track} ops={track.members(op).filter((other) => other !== op).map((other) => [other, `came ${offset(track.ready[other]! - track.ready[op]!)}`, false])} />
      </div>
    </div>
  );
}

/** Draws anew when a replay gives the timeline other times. */
function useTimesOf(track: Track | null): void {
  const [, again] = useState(0);
  useEffect(() => track?.listen(() => again((count) => count + 1)), [track]);
}

const offset = (ns: number): string => (ns < 0 ? `${duration(-ns)} earlier` : ns ? `${duration(ns)} later` : "at once");

function factsOf(track: Track, op: number): [string, ComponentChildren][] {
  const { columns } = track;
  const lane = track.lanes[columns.lane[op]!]!;
  const waited = track.start[op]! - track.ready[op]!;
  const text = (list: string[], value: number) => list[value] ?? "";
  const found: [string, ComponentChildren][] = [
    ["took", duration(track.end[op]! - track.start[op]!)],
    ["waited for partners", waited ? duration(waited) : ""],
    ["began at", duration(track.start[op]!)],
    ["slack", slackText(track.slackOf(op))],
    ["on", `rank ${lane.rank}, host ${lane.host}, ${shown(lane.name, 40)}`],
    ["kind", [text(KINDS, columns.kind[op]!), text(COLLECTIVES, columns.collective[op]!)].filter(Boolean).join(", ")],
    ["phase", text(PHASES, columns.phase[op]!)],
    ["layer", shown(track.text(columns.layer[op]!), 80)],
    ["tensor", shown(track.text(columns.tensor[op]!), 80)],
    ["shape", shapesOf(track, op)],
    ["bytes", columns.bytes[op] ? size(columns.bytes[op]!) : ""],
    ["type", text(DTYPES, columns.dtype[op]!)],
    ["arithmetic", columns.flops[op] ? `${count(columns.flops[op]! / 1000)} thousand` : ""],
    ["group", columns.group[op]! >= 0 ? shown(track.data.groups[columns.group[op]!] || "no name", 40) : ""],
    ["its time is", text(BASES, columns.basis[op]!)],
    ["samples", samplesOf(track, op)],
  ];
  return found.filter(([, value]) => value !== "");
}

function slackText(ns: number): string {
  if (ns < 0) return "";
  return ns ? duration(ns) : "none: the step hangs on it";
}

function shapesOf(track: Track, op: number): string {
  const tensor = track.text(track.columns.tensor[op]!);
  return track.data.shapes[tensor]?.join(" × ") ?? "";
}

/** How long the op took in each recorded step. */
function samplesOf(track: Track, op: number): string {
  const { samples, sample } = track.columns;
  if (samples && sample) {
    track.samplePtr ??= pointers(samples);
    const mine = Array.from(sample.subarray(track.samplePtr[op], track.samplePtr[op + 1]));
    return listed(mine);
  }
  const alike = track.steps.length > 1 ? track.inEachStep(op) : [];
  return listed(alike.map((other) => track.end[other]! - track.start[other]!));
}

function pointers(counts: ArrayLike<number>): Float64Array {
  const found = new Float64Array(counts.length + 1);
  for (let op = 0; op < counts.length; op++) found[op + 1] = found[op]! + counts[op]!;
  return found;
}

function listed(times: number[]): string {
  return times.length > 1 ? times.slice(0, 12).map(duration).join(", ") + (times.length > 12 ? " …" : "") : "";
}

/** What the op waits for, how, and whether it was the last of it; its lane where that held it. */
function causes(track: Track, op: number): [number, string, boolean][] {
  const first = track.depPtr[op]!;
  const ready = track.ready[op]!;
  const found = track.waitsFor(op).map((other, at): [number, string, boolean] => [
    other, LINKS[track.columns.link[first + at]!] ?? "", ready > 0 && track.end[other] === ready,
  ]);
  if (!found.some(([, , last]) => last)) {
    const lane = track.laneOps[track.columns.lane[op]!]!;
    const before = lane[lane.indexOf(op) - 1];
    if (before !== undefined && track.end[before] === ready) found.push([before, "its lane was busy", true]);
  }
  return found.sort((a, b) => track.end[b[0]]! - track.end[a[0]]!);
}

interface OpsProps {
  title: string;
  /** What a marked op is marked for. */
  then: string;
  track: Track;
  ops: [number, string, boolean][];
}

function Ops({ title, then, track, ops }: OpsProps) {
  const { view } = usePage();
  if (!ops.length) return null;
  return (
    <div>
      <h4>{title}{ops.length > MOST && ` (${MOST} of ${count(ops.length)})`}</h4>
      <ul class="plain">
        {ops.slice(0, MOST).map(([op, why, last]) => (
          <li key={op}>
            <button class="link" onClick={() => view.current?.show(track, op)}>{shown(track.name(op), 60) || `op ${op}`}</button>
            <small> rank {track.rankOf(op)}{why && `, ${why}`}{last && `, ${then}`}</small>
          </li>
        ))}
      </ul>
    </div>
  );
}
