/** What the reader has set, kept in the URL's fragment, so that a link restores the view. */

export interface State {
  /** The window of the timelines, in ns. */
  from: number;
  to: number;
  /** The chosen op: which timeline, which row. */
  chosen: { track: string; op: number } | null;
  /** A range selected for its sums. */
  range: [number, number] | null;
  folded: string[];
  pinned: string[];
  filter: string;
  lit: boolean;
  scenario: number;
  /** By lever: where its slider stands, 0 untouched. */
  sliders: Record<string, number>;
  curve: string;
}

type Listener = (state: State) => void;

/** Holds the state, tells who listens, writes the fragment. */
export class Store {
  #state: State;
  #listeners = new Set<Listener>();
  #writing = 0;

  constructor(private readonly initial: State) {
    this.#state = { ...initial, ...read(location.hash, initial) };
    addEventListener("hashchange", () => this.#follow());
  }

  get state(): State {
    return this.#state;
  }

  set(change: Partial<State>): void {
    this.#state = { ...this.#state, ...change };
    this.#listeners.forEach((listener) => listener(this.#state));
    if (!this.#writing) this.#writing = window.setTimeout(() => this.#write(), 250);
  }

  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A page in a notebook's frame has no address of its own. */
  #write(): void {
    this.#writing = 0;
    if (location.href === "about:srcdoc") return;
    history.replaceState(null, "", `#${written(this.#state, this.initial)}`);
  }

  #follow(): void {
    const wanted = location.hash.slice(1);
    if (wanted === written(this.#state, this.initial)) return;
    this.#state = { ...this.initial, ...read(location.hash, this.initial) };
    this.#listeners.forEach((listener) => listener(this.#state));
  }
}

/** Only what differs from how the page opens. */
function written(state: State, initial: State): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    const text = JSON.stringify(value);
    if (text !== JSON.stringify(initial[name as keyof State])) found.set(name, text);
  }
  return found.toString();
}

/** What a fragment says; what it says wrongly is left out. */
function read(hash: string, initial: State): Partial<State> {
  const found: Record<string, unknown> = {};
  for (const [name, text] of new URLSearchParams(hash.slice(1))) {
    if (!(name in initial)) continue;
    const value = parsed(text);
    if (fits(name as keyof State, value, initial)) found[name] = value;
  }
  return found as Partial<State>;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function fits(name: keyof State, value: unknown, initial: State): boolean {
  if (name === "chosen") {
    const chosen = value as State["chosen"];
    return chosen === null || (typeof chosen?.track === "string" && Number.isInteger(chosen.op));
  }
  if (name === "range") return value === null || isNumbers(value, 2);
  if (name === "folded" || name === "pinned") return Array.isArray(value);
  if (name === "sliders") return isNumbers(Object.values((value as object) ?? {}));
  if (typeof value === "number") return typeof initial[name] === "number" && Number.isFinite(value);
  return typeof value === typeof initial[name];
}

function isNumbers(value: unknown, length?: number): boolean {
  const all = Array.isArray(value) && value.every((each) => Number.isFinite(each));
  return all && (length === undefined || (value as unknown[]).length === length);
}
