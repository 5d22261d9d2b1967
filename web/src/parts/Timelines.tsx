/** The timelines, what is chosen in them, and how to find something. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Figure } from "../charts/Figure";
import { LEGEND } from "../charts/palette";
import { count, duration } from "../format";
import { Details } from "../timeline/Details";
import { drawTimeline } from "../timeline/draw";
import { matchesOf, type Matches } from "../timeline/search";
import { Sums } from "../timeline/Sums";
import { TimelineView } from "../timeline/view";
import { usePage, useStore } from "./App";
import { Legend } from "./Chart";

export function Timelines() {
  const page = usePage();
  const { model, store } = page;
  const canvas = useRef<HTMLCanvasElement>(null);
  const behind = useRef<HTMLCanvasElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const scenario = useStore((state) => state.scenario);
  const lit = useStore((state) => state.lit);
  const filter = useStore((state) => state.filter);
  const tracks = useMemo(() => {
    const shown = model.contents.scenarios.length ? [model.scenario(scenario).track] : [];
    const [recorded, ...measured] = model.tracks;
    return [recorded!, ...shown, ...measured];
  }, [model, scenario]);
  const current = useRef(tracks);
  current.current = tracks;
  const [found, setFound] = useState<Matches | null>(null);

  useEffect(() => {
    const toSearch = () => field.current!.focus();
    const made = new TimelineView(canvas.current!, behind.current!, store, () => current.current, toSearch);
    page.view.current = made;
    return () => made.close();
  }, []);
  useEffect(() => page.view.current?.redraw(), [tracks]);

  const search = (text: string) => {
    const next = text.trim() ? matchesOf(current.current, text) : null;
    setFound(next);
    page.view.current!.found = next && next.byTrack;
    page.view.current!.redraw();
  };
  const step = (by: number) => {
    if (!found?.ops.length) return;
    const at = (found.at + by + found.ops.length) % found.ops.length;
    setFound({ ...found, at });
    const { track, op } = found.ops[at]!;
    page.view.current!.show(track, op);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") canvas.current!.focus();
  };

  return (
    <section id="timeline" class="wide" aria-labelledby="timelines-title">
      <Figure
        name="timelines"
        title="Timeline of all ranks"
        words={`${tracks.map((track) => `${track.title}: ${count(track.count)} ops on ${track.ranks.length} ranks in ${duration(track.span)}`).join("; ")}. Arrow keys go from op to op; what is chosen is read out.`}
        drawing={() => ({
          width: 1200,
          height: page.view.current!.scene().height,
          draw: (surface) => drawTimeline(surface, { ...page.view.current!.scene(), width: 1200, cursor: null }),
        })}
        table={() => opsInSight(page.view.current!)}
      >
        <div class="tools" role="toolbar" aria-label="Timeline">
          <input
            ref={field} type="search" placeholder="Search ops and layers ( / )" aria-label="Search ops and layers"
            onInput={(event) => search(event.currentTarget.value)} onKeyDown={onKey}
          />
          {found && (
            <span class="found">
              {found.ops.length ? `${found.at + 1} of ${count(found.ops.length)}${found.more ? "+" : ""}` : "none"}
              <button onClick={() => step(-1)} aria-label="Previous match">‹</button>
              <button onClick={() => step(1)} aria-label="Next match">›</button>
            </span>
          )}
          <input
            type="search" value={filter} placeholder="Filter: rank 0, host 1, stream" aria-label="Filter ranks and lanes"
            onInput={(event) => store.set({ filter: event.currentTarget.value })}
          />
          <label><input type="checkbox" checked={lit} onChange={() => store.set({ lit: !lit })} /> critical path</label>
          <span class="spring" />
          <button onClick={() => page.view.current!.zoom(0.5)} aria-label="Zoom in">+</button>
          <button onClick={() => page.view.current!.zoom(2)} aria-label="Zoom out">−</button>
          <button onClick={() => page.view.current!.whole()}>All</button>
        </div>
        <Legend items={LEGEND} />
        <div class="canvas">
          <canvas class="behind" ref={behind} aria-hidden="true" />
          <canvas
            ref={canvas} tabIndex={0} role="application" aria-roledescription="timeline"
            aria-label="Timeline of all ranks. Arrow keys choose ops, W and S zoom, A and D move."
            aria-describedby="timelines-help"
          />
        </div>
        <p id="timelines-help" class="note keys">
          Drag to move, click and then wheel to zoom (or Ctrl and wheel), Shift and drag to sum a range, click an op for
          what it waited for; a rank’s name folds it, a lane’s name pins it. <kbd>W</kbd> <kbd>A</kbd> <kbd>S</kbd> <kbd>D</kbd> move,{" "}
          <kbd>←</kbd> <kbd>→</kbd> <kbd>↑</kbd> <kbd>↓</kbd> choose, <kbd>/</kbd> searches, <kbd>F</kbd> folds, <kbd>P</kbd> pins, <kbd>0</kbd> shows all.
        </p>
        <Sums tracks={tracks} />
        <Details tracks={tracks} />
      </Figure>
    </section>
  );
}

const MOST_ROWS = 50_000;

/** Ops between the timeline's borders, for a spreadsheet. */
function opsInSight(view: TimelineView) {
  const { from, to, rows } = view.scene();
  const found: (string | number)[][] = [];
  for (const track of new Set(rows.map((row) => row.track))) {
    track.lanes.forEach(({ rank, name }, lane) => {
      const ops = track.laneOps[lane]!;
      for (let at = track.firstAfter(lane, from); at < ops.length && found.length < MOST_ROWS; at++) {
        const op = ops[at]!;
        if (track.start[op]! > to) break;
        found.push([track.kind, rank, name, op, track.name(op), track.ready[op]!, track.start[op]!, track.end[op]!]);
      }
    });
  }
  return { head: ["timeline", "rank", "lane", "op", "name", "ready_ns", "start_ns", "end_ns"], rows: found };
}
