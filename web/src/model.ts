/** The contents opened: timelines ready to be drawn, and the engine where the browser has one. */

import type { Contents, ScenarioData } from "./contents";
import { type Engine, openEngine, type Program } from "./engine";
import { Track } from "./track";

export class Scenario {
  readonly track: Track;
  #program: Program | null = null;

  constructor(readonly data: ScenarioData, private readonly engine: Engine | null) {
    this.track = new Track(data.track);
  }

  /** Compiled when first asked for. */
  get program(): Program {
    if (!this.engine) throw new Error("there is no engine");
    this.#program ??= this.engine.compile(this.track.structure());
    return this.#program;
  }
}

export interface Model {
  contents: Contents;
  tracks: Track[];
  engine: Engine | null;
  /** Why there is no engine. */
  lacks: string;
  scenario(index: number): Scenario;
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
    scenario(index) {
      const made = opened.get(index) ?? new Scenario(contents.scenarios[index]!, found.engine);
      opened.set(index, made);
      return made;
    },
  };
}
