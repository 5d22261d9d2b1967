/** The page from top to bottom. */

import { createContext } from "preact";
import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { TrackData } from "../contents";
import type { Model } from "../model";
import { type State, Store } from "../state";
import { rankKey } from "../timeline/rows";
import type { TimelineView } from "../timeline/view";
import { Runs } from "../live/Runs";
import { WhatIf } from "../whatif/WhatIf";
import { Analyses } from "./Analyses";
import { Difference } from "./Difference";
import { Headline } from "./Headline";
import { Meetings } from "./Meetings";
import { Memory } from "./Memory";
import { Path } from "./Path";
import { Plan } from "./Plan";
import { Ranks } from "./Ranks";
import { Rests } from "./Rests";
import { Timelines } from "./Timelines";
import { Top, Written } from "./Top";

/** What every part of the page may ask for. */
export interface Page {
  model: Model;
  store: Store;
  view: { current: TimelineView | null };
  /** Into the timeline: to an op of the recorded run, or of another timeline, or a moment. */
  goTo(target: { op?: number | null; span_ns?: [number, number] | null; track?: TrackData["kind"] }): void;
  theme: number;
}

const PageContext = createContext<Page>(null!);
export const usePage = (): Page => useContext(PageContext);

/** The state, or a part of it; draws anew when that part changes. */
export function useStore<T>(pick: (state: State) => T): T {
  const { store } = usePage();
  const [value, setValue] = useState(() => pick(store.state));
  useEffect(() => {
    setValue(() => pick(store.state));
    return store.listen((state) => setValue(() => pick(state)));
  }, [store]);
  return value;
}

export function App({ model }: { model: Model }) {
  const view = useRef<TimelineView | null>(null);
  const store = useMemo(() => new Store(opening(model)), [model]);
  const [theme, setThemeCount] = useState(0);
  const page: Page = {
    model, store, view, theme,
    goTo: ({ op, span_ns, track }) => {
      const wanted = model.tracks.find(({ kind }) => kind === track) ?? model.tracks[0]!;
      if (span_ns) {
        const room = 0.05 * (span_ns[1] - span_ns[0]);
        store.set({ from: span_ns[0] - room, to: span_ns[1] + room, range: span_ns });
      } else if (op !== null && op !== undefined) view.current?.show(wanted, op);
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      document.getElementById("timeline")!.scrollIntoView({ behavior: calm ? "auto" : "smooth" });
      document.querySelector<HTMLElement>("#timeline [role=application]")?.focus({ preventScroll: true });
    },
  };
  const turned = () => {
    setThemeCount((count) => count + 1);
    view.current?.redraw();
  };
  useSystemTheme(turned);
  return (
    <PageContext.Provider value={page}>
      <a class="skip" href="#timeline">Skip to the timeline</a>
      <Top title={model.contents.title} turned={turned}>
        {model.contents.live && <Runs live={model.contents.live} />}
      </Top>
      <main>
        <Headline />
        <Difference />
        <div class="sheet one">
          <Ranks />
          <Path />
        </div>
        <Timelines />
        <WhatIf />
        <div class="sheet two">
          <Memory />
          <Meetings />
          <Plan />
          <Rests />
        </div>
        <Analyses />
      </main>
      {model.contents.live
        ? <footer>Served by Paceline {model.contents.version} to this machine alone.</footer>
        : <Written version={model.contents.version} />}
    </PageContext.Provider>
  );
}

function useSystemTheme(changed: () => void): void {
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
}

const MOST_OPEN_LANES = 36;

/** The first two steps, with as many ranks unfolded as can be looked at together. */
function opening(model: Model): State {
  const { tracks, contents } = model;
  const recorded = tracks[0]!;
  const step = recorded.steps.length > 1 ? 2 * contents.step_ns : recorded.span;
  const folded: string[] = [];
  let open = 0;
  for (const track of [...tracks, ...(contents.scenarios.length ? [model.scenario(0).track] : [])]) {
    for (const rank of track.ranks) {
      open += track.lanes.filter((lane) => lane.rank === rank).length;
      if (open > MOST_OPEN_LANES) folded.push(rankKey(track, rank));
    }
  }
  return {
    from: -0.01 * step, to: 1.01 * Math.max(step, 1000), chosen: null, range: null, folded,
    pinned: [], filter: "", lit: true, scenario: 0, sliders: {}, curve: "",
  };
}
