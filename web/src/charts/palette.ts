/**
 * Colours that colour-blind readers tell apart (Paul Tol's "bright" and "muted" sets), for light
 * and dark grounds. What waits has a texture too, so that colour is never alone.
 */

import { Kind } from "../words";

export interface Palette {
  ground: string;
  raised: string;
  ink: string;
  faint: string;
  line: string;
  accent: string;
  path: string;
  wait: string;
  series: Record<string, string>;
}

const SERIES_LIGHT = {
  compute: "#4477aa", forward: "#4477aa", backward: "#7a5aa6", update: "#228833",
  communication: "#e0a82e", transfer: "#e0a82e", data: "#aa3377", host: "#b4b9c1",
  copy: "#44aa99", overlapped: "#44aa99", hidden: "#44aa99", exposed: "#e0a82e",
  waiting: "#cc6677", idle: "#e4e7eb", other: "#d3d7dd", core: "#ddcc99",
};

const SERIES_DARK = {
  compute: "#6699cc", forward: "#6699cc", backward: "#a488d0", update: "#4fae68",
  communication: "#e5b94f", transfer: "#e5b94f", data: "#d06fa5", host: "#6b7380",
  copy: "#5cc0ae", overlapped: "#5cc0ae", hidden: "#5cc0ae", exposed: "#e5b94f",
  waiting: "#e08090", idle: "#2b3038", other: "#4a515c", core: "#8f8558",
};

export const LIGHT: Palette = {
  ground: "#ffffff", raised: "#f6f7f9", ink: "#1c2430", faint: "#5b6472", line: "#dde1e7",
  accent: "#2a5d9f", path: "#b3261e", wait: "#cc6677", series: SERIES_LIGHT,
};

export const DARK: Palette = {
  ground: "#14171c", raised: "#1c2027", ink: "#e6e9ee", faint: "#a3abb8", line: "#333a45",
  accent: "#8ab8f0", path: "#ff8a80", wait: "#e08090", series: SERIES_DARK,
};

/** Of memory's categories and other named series, in turn. */
const TURN = ["compute", "hidden", "exposed", "backward", "update", "data", "core", "host"];

export function seriesColour(palette: Palette, place: number): string {
  return palette.series[TURN[place % TURN.length]!]!;
}

const PHASES = ["compute", "forward", "backward", "update", "data", "communication"];

/** What an op is drawn in: by kind where that says it, else by phase. */
export function opSeries(kind: number, phase: number): string {
  if (kind === Kind.Compute) return PHASES[phase] ?? "compute";
  if (kind >= Kind.Collective && kind <= Kind.Transfer) return "communication";
  if (kind === Kind.Copy) return "copy";
  if (kind === Kind.Data) return "data";
  if (kind === Kind.CoreWait) return "core";
  if (kind === Kind.Wait) return "waiting";
  return "host";
}

export const LEGEND: [string, string][] = [
  ["forward", "forward"], ["backward", "backward"], ["update", "update"], ["data", "data"],
  ["host", "host"], ["communication", "transfer"], ["waiting", "waiting"],
  ["core", "waiting for a core"],
];

let explicit: "light" | "dark" | null = null;

export function setTheme(theme: "light" | "dark" | null): void {
  explicit = theme;
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

export function currentTheme(): "light" | "dark" {
  return explicit ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

export const palette = (): Palette => (currentTheme() === "dark" ? DARK : LIGHT);
