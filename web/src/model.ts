/** The contents opened: timelines ready to be drawn, and the engine where the browser has one. */

import type { Contents, Lever, ScenarioData } from "./contents";
import { type Engine, openEngine, type Program, roomFor, type Times } from "./engine";
import { Track } from "./track";
import { afterRests, durations, type Setting } from "./whatif/durations";
import { lastWindow, type Parts, partsOf, stepNs } from "./whatif/step";

export interface Answer {
  stepNs: number;
  parts: Parts;
  durations: Float64Array;
}

/** A typical step that can be replayed at any setting of the sliders. */
export class Scenario {
  readonly track: Track;
  #program: Program | null = null;
  #times: Times | null = null;
  #other: { track: Track; times: Times } | null = null;

  constructor(readonly data: ScenarioData, private readonly engine: Engine | null) {
    this.track = new Track(data.track);
  }

  /** The step at a setting; the timeline that is shown takes its times. */
  show(setting: Setting): Answer {
    this.#times ??= roomFor(this.track.count);
    return this.#ask(this.track, this.#times, setting);
  }

  /** The same, beside what is shown. */
  ask(setting: Setting): Answer {
    this.#other ??= { track: new Track(this.data.track), times: roomFor(this.track.count) };
    return this.#ask(this.#other.track, this.#other.times, setting);
  }

  #ask(track: Track, times: Times, setting: Setting): Answer {
    if (!this.engine) throw new Error("there is no engine");
    const { shares, loaded, rests } = this.data;
    this.#program ??= this.engine.compile(this.track.structure(), { columns: shares, loaded });
    const priced = durations(this.data, setting);
    track.retime(this.#program.replay(priced, times));
    const took = rests.factor > 1 ? afterRests(track, priced, rests) : priced;
    if (took !== priced) track.retime(this.#program.replay(took, times));
    const window = lastWindow(track, this.data);
    return { stepNs: stepNs(track, this.data), parts: partsOf(track, window), durations: took };
  }
}

export interface Model {
  contents: Contents;
  tracks: Track[];
  engine: Engine | null;
  /** Why there is no engine. */
  lacks: string;
  scenario(index: number): Scenario;
  /** The sliders of a scenario. */
  levers(index: number): Lever[];
}

export async function openModel(contents: Contents): Promise<Model> {
  const found = await openEngine().then(
    (engine) => ({ engine, lacks: "" }),
    (error: Error) => ({ engine: null, lacks: error.message }),
  );
  const opened = new Map<number, Scenario>();
  return {
    contents,
    tracks: contents.tracks.map((data) => new Track(data)),
    ...found,
    scenario(wanted) {
      const index = Math.min(wanted, contents.scenarios.length - 1);
      const made = opened.get(index) ?? new Scenario(contents.scenarios[index]!, found.engine);
      opened.set(index, made);
      return made;
    },
    levers(index) {
      const own = contents.scenarios[index]?.levers ?? [];
      return own.length ? own : contents.levers;
    },
  };
}
