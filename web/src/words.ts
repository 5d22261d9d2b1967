/** The graph's words by number, as src/paceline/graph/kinds.py counts them. */

export const KINDS = [
  "compute", "host", "collective", "send", "receive", "transfer", "copy", "wait", "data", "marker",
  "waiting for a core",
];
export const PHASES = ["", "forward", "backward", "update", "data", "communication"];
export const COLLECTIVES = [
  "", "all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all", "gather",
  "scatter", "barrier", "point to point", "push", "pull",
];
export const DTYPES = [
  "", "float64", "float32", "float16", "bfloat16", "float8", "int64", "int32", "int16", "int8",
  "uint8", "bool", "complex64",
];
export const LINKS = [
  "its data", "program order", "its launch", "an event", "autograd", "a gradient", "a message",
  "a wait", "the step before", "a control",
];
export const BASES = [
  "recorded", "measured", "fitted", "scaled from another device", "recorded by wall clock",
  "datasheet", "arithmetic", "forecast",
];

export const enum Kind {
  Compute, Host, Collective, Send, Recv, Transfer, Copy, Wait, Data, Marker, CoreWait,
}

/** Bytes move between ranks. */
export const talks = (kind: number): boolean => kind >= Kind.Collective && kind <= Kind.Transfer;
