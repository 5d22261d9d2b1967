/** A scenario in the engine's memory, replayed at any setting of the sliders. */

import type { ScenarioData } from "../contents";
import { type Column, Conditions, Edits, type Engine, Pack, Replayer, Rests, StepParts } from "../engine/index.js";
import type { Times, Track } from "../track";
import { factorsOf, type Setting } from "./setting";
import { type Parts, stepColumns } from "./step";

export interface Told {
  stepNs: number;
  /** When the last op ends. */
  lastNs: number;
  parts: Parts;
}

export class Program {
  readonly #engine: Engine;
  readonly #replayer: Replayer;
  readonly #conditions: Conditions | null;
  readonly #edits: Edits;
  readonly #rests: Rests | null;
  readonly #parts: StepParts;
  readonly #numbers: Column<Float64Array>;
  #last: Setting | null = null;

  constructor(engine: Engine, track: Track, data: ScenarioData) {
    const { heap } = engine;
    const { columns } = track;
    this.#engine = engine;
    const lane = heap.put(new Int32Array(columns.lane));
    const kind = heap.put(new Uint8Array(columns.kind));
    const { ranks, steps, ...more } = stepColumns(track, data);
    const [step, rank, update] = [more.step, more.rank, more.update].map((each) => heap.put(each));
    this.#conditions = conditionsOf(engine, data);
    this.#replayer = new Replayer(engine, { lane, ...structureOf(engine, track) }, this.#conditions !== null);
    this.#edits = editsOf(engine, data);
    this.#rests = data.rests.factor > 1 ? new Rests(engine, lane, kind, track.lanes.length, data.rests) : null;
    this.#parts = new StepParts(engine, {
      lane, kind, step: step!, rank: rank!, update: update!, ranks, steps, period: data.period,
    });
    this.#numbers = heap.room(Float64Array, track.count);
  }

  run(setting: Setting): Told {
    const { rate, latency } = setting;
    const priced = this.#edits.apply({ factors: factorsOf(setting), rate, latency });
    this.#replay(priced);
    if (this.#rests) this.#replay(this.#rests.apply(priced, this.#replayer.addresses()));
    this.#last = setting;
    return this.#parts.tell(this.#replayer.addresses());
  }

  /** When every op of the last replay runs, and ops by lane in the order in which they start. */
  read(times: Times, order: Int32Array): void {
    const [ready, start, end] = this.#replayer.addresses();
    this.#read(ready!, times.ready);
    this.#read(start!, times.start);
    this.#read(end!, times.end);
    order.set(this.#parts.order());
  }

  /** The critical path of the last replay, from its first op to its last. */
  path(): Int32Array {
    return this.#replayer.path();
  }

  /** How much later each op could end without a longer step, in ns. */
  slack(setting: Setting): Float64Array {
    if (this.#last !== setting) this.run(setting);
    const found = this.#replayer.slack();
    const numbers = new Float64Array(found.length);
    this.#read(found.address, numbers);
    found.release();
    return numbers;
  }

  #replay(durations: Column<BigInt64Array>): void {
    if (!this.#conditions) this.#replayer.run(durations);
    else this.#conditions.during((sharing: number) => this.#replayer.run(durations, sharing));
  }

  #read(address: number, into: Float64Array): void {
    this.#engine.calls.numbers_of(address, into.length, this.#numbers.address);
    into.set(this.#numbers.values);
  }
}

function structureOf({ heap }: Engine, track: Track) {
  const { instance, link, drain_op, drain_lane, priority } = track.columns;
  return {
    instance: heap.put(new Int32Array(instance)),
    depPtr: heap.whole(track.depPtr),
    depSrc: heap.put(track.depSrc),
    depKind: heap.put(new Uint8Array(link)),
    discipline: heap.put(Uint8Array.from(track.lanes, (each) => each.discipline)),
    drainOp: heap.put(new Int32Array(drain_op)),
    drainLane: heap.put(new Int32Array(drain_lane)),
    priority: heap.put(new Int32Array(priority)),
  };
}

function editsOf(engine: Engine, { program, prices }: ScenarioData): Edits {
  const { heap } = engine;
  const columns = {
    durations: heap.whole(program.dur),
    touched: heap.put(new Uint8Array(program.touched)),
    priceOf: heap.put(new Int32Array(program.price_of)),
    scale: heap.whole(program.factor),
  };
  return new Edits(engine, columns, prices);
}

/** What ops share while they run; null where they share nothing. */
function conditionsOf(engine: Engine, { shares, loaded }: ScenarioData): Conditions | null {
  const columns = Object.entries(shares).map(([name, each]) => [name, engine.heap.put(each)] as const);
  return columns.length ? new Conditions(engine, new Pack({ loaded }, new Map(columns))) : null;
}
