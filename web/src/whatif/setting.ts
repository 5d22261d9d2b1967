/** How the sliders stand, as the engine takes it. */

export interface Setting {
  /** By lever over ops: how many times as fast. */
  speeds: Record<string, number>;
  /** How many times what the links have. */
  rate: number;
  latency: number;
}

/** Bits of `touched`, in the order of `BY_NAME` in src/paceline/report/page/scenarios.py. */
const BY_NAME = [
  "compute", "forward", "backward", "update", "data", "host", "waits", "communication",
];

/** By what each lever multiplies the times of its ops. */
export const factorsOf = ({ speeds }: Setting): number[] => BY_NAME.map((name) => 1 / (speeds[name] ?? 1));
