/** The contents opened: timelines ready to be drawn, and the engine where the browser has one. */

import type { Contents, Lever, ScenarioData } from "./contents";
import { openEngine } from "./engine";
import type { Engine } from "./engine/index.js";
import { Track } from "./track";
import { Program, type Told } from "./whatif/program";
import type { Setting } from "./whatif/setting";

/** A typical step that can be replayed at any setting of the sliders. */
export class Scenario {
  readonly track: Track;
  #program: Program | null = null;

  constructor(readonly data: ScenarioData, private readonly engine: Engine | null) {
    this.track = new Track(data.track);
  }

  /** The step at a setting; the timeline that is shown takes its times. */
  show(setting: Setting): Told {
    const program = this.#compiled();
    const told = program.run(setting);
    let slack: Float64Array | null = null;
    this.track.retime({
      lastNs: told.lastNs,
      read: (times, order) => program.read(times, order),
      path: program.path(),
      slackOf: (op) => (slack ??= program.slack(setting))[op]!,
    });
    return told;
  }

  /** The same, beside what is shown. */
  ask(setting: Setting): Told {
    return this.#compiled().run(setting);
  }

  #compiled(): Program {
    if (!this.engine) throw new Error("there is no engine");
    return (this.#program ??= new Program(this.engine, this.track, this.data));
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
