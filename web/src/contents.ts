/** What the file holds: the same fields as `Contents` and `PlanAlone` in src/paceline/report/page/contents.py. */

import type { Price } from "./engine/edits.js";

/** A column of whole numbers. */
export type Numbers = Float64Array | Int32Array;

/** A column as the engine takes it. */
export type Typed = Uint8Array | Int32Array | BigInt64Array | Float64Array;

export interface Piece {
  text: string;
  op: number | null;
  span_ns: [number, number] | null;
}

export type Sentence = Piece[];

export interface LaneRow {
  rank: number;
  host: number;
  name: string;
  kind: string;
  discipline: number;
}

export type ColumnName =
  | "start" | "took" | "waited" | "slack" | "lane" | "kind" | "phase" | "name" | "layer" | "tensor"
  | "bytes" | "flops" | "dtype" | "collective" | "group" | "instance" | "step" | "basis" | "deps"
  | "back" | "link" | "previous" | "priority" | "drain_op" | "drain_lane";

export interface TrackData {
  kind: "recorded" | "predicted" | "measured";
  title: string;
  lanes: LaneRow[];
  names: string[];
  groups: string[];
  /** By tensor: its dimensions. */
  shapes: Record<string, number[]>;
  span_ns: number;
  steps: [number, number, number][];
  path: { op: Numbers; share: Numbers };
  columns: Record<ColumnName, Numbers> & { samples?: Numbers; sample?: Numbers };
}

export interface RankRow {
  rank: number;
  host: number;
  shares_ns: number[];
}

export interface PathRow {
  name: string;
  detail: string;
  count: number;
  share_ns: number;
  op: number | null;
}

export interface MemoryData {
  rank: number;
  categories: string[];
  time_ns: Numbers;
  held_bytes: Numbers[];
  peak_bytes: number;
  at_ns: number;
  op: number;
  capacity_bytes: number;
}

/** instance, name, collective, group, ranks, step, bytes, skew, transfer, waiting, bus, late rank, an op */
export type MeetingRow = [
  number, string, string, string, number, number, number, number, number, number, number, number, number,
];

export interface MeetingsData {
  count: number;
  rows: MeetingRow[];
  groups: [string, number, number, number, number, number][];
  stragglers: [number, number, number, string, number][];
}

export interface Lever {
  name: string;
  label: string;
  ops: number;
  why_not: string;
  selection: string;
  now: number;
}

export interface Program {
  dur: Numbers;
  /** Which sliders touch the op, by bit. */
  touched: Numbers;
  /** By what a price is multiplied, in parts per billion. */
  factor: Numbers;
  /** The row of `prices` that the op takes its time from, or -1. */
  price_of: Numbers;
}

export interface ScenarioData {
  name: string;
  /** What was changed, where the name says more. */
  changes?: string;
  step_ns: number;
  low_ns: number;
  high_ns: number;
  workers: number;
  period: number;
  overlap: boolean;
  by_class: Record<string, number>;
  rests_on: string[];
  track: TrackData;
  program: Program;
  shares: Record<string, Typed>;
  loaded: boolean;
  rests: { least_ns: number; factor: number; warm_ns: number };
  prices: Price[];
  /** Its own sliders; none: those of the page. */
  levers: Lever[];
}

export interface PlanData {
  strategies: string[];
  before_ns: number;
  after_ns: number;
  low_ns: number;
  high_ns: number;
  classes: [string, number, number][];
  measured_ns: number | null;
  error: number | null;
  within: boolean | null;
}

export interface DifferenceData {
  verdict: string;
  basis: string[];
  before: string;
  after: string;
  change_ns: number;
  /** `op` is of the timeline of that kind. */
  causes: { words: string; share_ns: number; noise_ns: number; track: TrackData["kind"]; op: number | null }[];
  /** Name, before and after, in ns a step. */
  classes: [string, number, number][];
  layers: [string, number, number][];
  /** Rank, and by how much it computes, transfers, waits for ranks, for input, and the rest, longer. */
  ranks: [number, number, number, number, number, number][];
}

export interface AnalysisData {
  topic: string;
  title: string;
  columns: string[];
  rows: string[][];
  /** What the rows name, where they name ops. */
  ops: (number | null)[];
}

export interface Contents {
  of: "run";
  title: string;
  version: string;
  headline: Sentence[];
  facts: [string, string][];
  step_ns: number;
  steps_ns: number[];
  states: [string, string][];
  ranks: RankRow[];
  waited_for: [number, number] | null;
  path_ns: number;
  path_by_kind: PathRow[];
  path_by_layer: PathRow[];
  path_ops: PathRow[];
  tracks: TrackData[];
  levers: Lever[];
  scenarios: ScenarioData[];
  cannot: { name: string; why_not: string }[];
  memory: MemoryData | null;
  meetings: MeetingsData;
  plan: PlanData | null;
  rests_on: string[];
  notes: string[];
  missing: Record<string, string>;
  /** Of a page that `paceline view` serves: the runs that are open, and which this is. */
  live: { runs: string[]; here: number } | null;
  /** To a second run. */
  difference: DifferenceData | null;
  analyses: AnalysisData[];
}

/** A plan without a run. Rows are name, value. */
export interface PlanAloneData {
  of: "plan";
  title: string;
  version: string;
  /** As predicted; empty: nobody predicted it. */
  step: string;
  headline: string[];
  parts: { strategy: string; does: string; why: string }[];
  /** Of no part. */
  reasons: string[];
  predicted: [string, string][];
  made_for: [string, string][];
  missing: Record<string, string>;
}

export type Opened = Contents | PlanAloneData;
