/** The canvas with the timelines: what wheel, pointer and keys do to it. */

import { palette } from "../charts/palette";
import { Pane } from "../charts/pane";
import type { State, Store } from "../state";
import type { Track } from "../track";
import { drawTimeline } from "./draw";
import { laneKey, type Row, rowsOf } from "./rows";
import { AXIS, GUTTER, type Scene } from "./scene";

const TALLEST = 560;
const CLICK = 4;

export class TimelineView {
  scroll = 0;
  cursor: number | null = null;
  found: Map<Track, Uint8Array> | null = null;
  rows: Row[] = [];
  #pane: Pane;
  #asked = 0;
  #width = 0;
  #height = 0;
  #rowsFor: unknown[] = [];
  #grip: { x: number; y: number; from: number; to: number; scroll: number; range: boolean } | null = null;
  #stop: (() => void)[] = [];

  constructor(
    private readonly canvas: HTMLCanvasElement,
    behind: HTMLCanvasElement,
    private readonly store: Store,
    private readonly tracks: () => Track[],
    private readonly search: () => void,
  ) {
    this.#pane = new Pane(canvas, behind, () => this.draw());
    this.#stop.push(store.listen(() => this.redraw()));
    const watch = new ResizeObserver(() => this.redraw());
    watch.observe(canvas.parentElement!);
    this.#stop.push(() => watch.disconnect(), () => this.#pane.close());
    this.#listen("wheel", (event) => this.#wheel(event), { passive: false });
    this.#listen("pointerdown", (event) => this.#down(event));
    this.#listen("pointermove", (event) => this.#move(event));
    this.#listen("pointerup", (event) => this.#up(event));
    this.#listen("pointerleave", () => this.#hover(null));
    this.#listen("dblclick", (event) => this.#closer(event));
    this.#listen("keydown", (event) => this.#key(event));
    this.redraw();
  }

  close(): void {
    this.#stop.forEach((each) => each());
    cancelAnimationFrame(this.#asked);
  }

  /** At the next frame, once. */
  redraw(): void {
    this.#asked ||= requestAnimationFrame(() => this.draw());
  }

  /** Now, in place of what was asked for the next frame. */
  draw(): void {
    cancelAnimationFrame(this.#asked);
    this.#asked = 0;
    this.#layout();
    this.#pane.draw(this.#width, this.#height, (surface) => drawTimeline(surface, this.scene()));
  }

  scene(): Scene {
    const { state } = this.store;
    const chosen = state.chosen;
    const track = chosen && this.tracks().find((each) => each.kind === chosen.track);
    return {
      rows: this.rows,
      from: state.from,
      to: state.to,
      width: this.#width,
      height: this.#height,
      scroll: this.scroll,
      palette: palette(),
      lit: state.lit,
      chosen: track && chosen.op < track.count ? { track, op: chosen.op } : null,
      range: state.range,
      cursor: this.cursor,
      found: this.found,
    };
  }

  /** Bring an op into sight, with some of what is around it. */
  show(track: Track, op: number): void {
    const { state } = this.store;
    const rank = track.rankOf(op);
    const folded = state.folded.filter((key) => key !== `${track.kind}/${rank}`);
    const [start, end] = [track.ready[op]!, track.end[op]!];
    const wide = Math.min(Math.max(30 * (end - start), 200), 1.2 * this.#longest());
    const seen = start >= state.from && end <= state.to && end - start > (state.to - state.from) / 200;
    const from = Math.max((start + end - wide) / 2, -0.02 * wide);
    const window = seen ? {} : { from, to: from + wide };
    this.store.set({ ...window, folded, chosen: { track: track.kind, op } });
    this.#layout();
    const row = this.rows.find((each) => each.key === laneKey(track, track.columns.lane[op]!) && each.what === "lane");
    if (row) this.#reveal(row);
    this.redraw();
  }

  zoom(factor: number, around?: number): void {
    const { from, to } = this.store.state;
    const middle = around ?? (from + to) / 2;
    const most = 1.2 * this.#longest();
    const wide = Math.min(Math.max((to - from) * factor, 50), most);
    const left = middle - ((middle - from) / (to - from)) * wide;
    this.store.set({ from: left, to: left + wide });
  }

  pan(share: number): void {
    const { from, to } = this.store.state;
    this.#window(from + share * (to - from), to - from);
  }

  whole(): void {
    const longest = this.#longest();
    this.store.set({ from: -0.01 * longest, to: 1.01 * longest });
  }

  #longest(): number {
    return Math.max(1000, ...this.tracks().map((track) => track.span));
  }

  #window(from: number, wide: number): void {
    const longest = this.#longest();
    const left = Math.min(Math.max(from, -0.5 * wide), longest - 0.5 * wide);
    this.store.set({ from: left, to: left + wide });
  }

  #layout(): void {
    const { state } = this.store;
    const tracks = this.tracks();
    const now = [state.folded, state.pinned, state.filter, tracks.length, ...tracks];
    if (now.length !== this.#rowsFor.length || now.some((each, at) => each !== this.#rowsFor[at])) {
      this.rows = rowsOf(tracks, state);
      this.#rowsFor = now;
    }
    this.#width = this.canvas.parentElement!.clientWidth;
    this.#height = Math.min(TALLEST, AXIS + this.#tall() + 4);
    this.scroll = Math.max(0, Math.min(this.scroll, this.#tall() + AXIS - this.#height));
  }

  #tall(): number {
    const last = this.rows.at(-1);
    return last ? last.y + last.height : 0;
  }

  #moment(x: number): number {
    const { from, to } = this.store.state;
    return from + ((x - GUTTER) / (this.#width - GUTTER)) * (to - from);
  }

  #wheel(event: WheelEvent): void {
    const mine = event.ctrlKey || event.metaKey || document.activeElement === this.canvas;
    if (!mine && !event.deltaX) return;
    event.preventDefault();
    if (event.deltaX || event.shiftKey) this.pan((event.deltaX || event.deltaY) / 1000);
    else if (event.altKey) this.#roll(event.deltaY);
    else this.zoom(Math.exp(event.deltaY / 400), this.#moment(event.offsetX));
  }

  #roll(pixels: number): void {
    this.scroll += pixels;
    this.redraw();
  }

  #down(event: PointerEvent): void {
    const { from, to } = this.store.state;
    this.canvas.setPointerCapture(event.pointerId);
    const { offsetX: x, offsetY: y } = event;
    this.#grip = { x, y, from, to, scroll: this.scroll, range: event.shiftKey };
  }

  #move(event: PointerEvent): void {
    const grip = this.#grip;
    if (!grip) {
      this.#hover(event.offsetX > GUTTER ? this.#moment(event.offsetX) : null);
      return;
    }
    if (grip.range) {
      this.store.set({ range: [this.#moment(grip.x), this.#moment(event.offsetX)] });
      return;
    }
    this.scroll = grip.scroll + grip.y - event.offsetY;
    const wide = grip.to - grip.from;
    this.#window(grip.from + ((grip.x - event.offsetX) / (this.#width - GUTTER)) * wide, wide);
    this.redraw();
  }

  #up(event: PointerEvent): void {
    const grip = this.#grip;
    this.#grip = null;
    if (!grip || Math.hypot(event.offsetX - grip.x, event.offsetY - grip.y) > CLICK) return;
    this.#click(event.offsetX, event.offsetY);
  }

  #hover(moment: number | null): void {
    this.cursor = moment;
    this.redraw();
  }

  #rowAt(y: number): Row | undefined {
    const at = y - AXIS + this.scroll;
    return this.rows.find((row) => at >= row.y && at < row.y + row.height);
  }

  #opAt(x: number, y: number): { track: Track; op: number } | null {
    const row = this.#rowAt(y);
    if (!row?.lanes.length || x < GUTTER) return null;
    const inside = (y - AXIS + this.scroll - row.y - 2) / (row.height - 4);
    const lane = row.lanes[Math.min(row.lanes.length - 1, Math.max(0, Math.floor(inside * row.lanes.length)))]!;
    const near = ((this.store.state.to - this.store.state.from) / this.#width) * 2;
    const moment = this.#moment(x);
    for (const each of [moment, moment + near, moment - near]) {
      const op = row.track.at(lane, each);
      if (op >= 0) return { track: row.track, op };
    }
    return null;
  }

  #click(x: number, y: number): void {
    const row = this.#rowAt(y);
    if (x < GUTTER && row) {
      if (row.what === "rank") this.#toggle("folded", row.key);
      if (row.what === "lane") this.#toggle("pinned", row.key);
      return;
    }
    const hit = this.#opAt(x, y);
    this.store.set({ chosen: hit && { track: hit.track.kind, op: hit.op }, range: null });
  }

  #toggle(name: "folded" | "pinned", key: string): void {
    const now = this.store.state[name];
    this.store.set({ [name]: now.includes(key) ? now.filter((each) => each !== key) : [...now, key] });
  }

  #closer(event: MouseEvent): void {
    const hit = this.#opAt(event.offsetX, event.offsetY);
    if (!hit) return;
    const [start, end] = [hit.track.ready[hit.op]!, hit.track.end[hit.op]!];
    const room = Math.max(0.3 * (end - start), 100);
    this.store.set({ from: start - room, to: end + room });
  }

  #key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = this.#keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act(this.store.state);
  }

  #keys: Record<string, (state: State) => void> = {
    w: () => this.zoom(0.7),
    s: () => this.zoom(1 / 0.7),
    a: () => this.pan(-0.15),
    d: () => this.pan(0.15),
    "/": () => this.search(),
    "0": () => this.whole(),
    c: (state) => this.store.set({ lit: !state.lit }),
    f: (state) => this.#foldAll(state),
    p: () => this.#pinChosen(),
    Escape: () => this.store.set({ chosen: null, range: null }),
    ArrowRight: () => this.#next(1),
    ArrowLeft: () => this.#next(-1),
    ArrowDown: () => this.#nextLane(1),
    ArrowUp: () => this.#nextLane(-1),
    PageDown: () => this.#roll(200),
    PageUp: () => this.#roll(-200),
  };

  #foldAll(state: State): void {
    const ranks = this.tracks().flatMap((track) => track.ranks.map((rank) => `${track.kind}/${rank}`));
    this.store.set({ folded: state.folded.length ? [] : ranks });
  }

  #pinChosen(): void {
    const { chosen } = this.scene();
    if (chosen) this.#toggle("pinned", laneKey(chosen.track, chosen.track.columns.lane[chosen.op]!));
  }

  /** The op after or before the chosen one on its lane; without one, the first in sight. */
  #next(by: number): void {
    const { chosen } = this.scene();
    if (!chosen) return this.#nextLane(1);
    const ops = chosen.track.laneOps[chosen.track.columns.lane[chosen.op]!]!;
    const op = ops[ops.indexOf(chosen.op) + by];
    if (op !== undefined) this.show(chosen.track, op);
  }

  #nextLane(by: number): void {
    const { chosen } = this.scene();
    const lanes = this.rows.filter((row) => row.what === "lane");
    const lane = chosen ? chosen.track.columns.lane[chosen.op]! : -1;
    const now = lanes.findIndex((row) => row.track === chosen?.track && row.lanes[0] === lane);
    const row = lanes[Math.max(0, Math.min(lanes.length - 1, now + by))];
    if (!row) return;
    const moment = chosen ? chosen.track.start[chosen.op]! : Math.max(0, this.store.state.from);
    const ops = row.track.laneOps[row.lanes[0]!]!;
    const op = ops[Math.min(row.track.firstAfter(row.lanes[0]!, moment), ops.length - 1)];
    if (op !== undefined) this.show(row.track, op);
  }

  #reveal(row: Row): void {
    const room = this.#height - AXIS;
    if (row.y < this.scroll) this.scroll = row.y - 30;
    if (row.y + row.height > this.scroll + room) this.scroll = row.y + row.height - room + 30;
  }

  #listen<K extends keyof HTMLElementEventMap>(
    type: K, act: (event: HTMLElementEventMap[K]) => void, options?: AddEventListenerOptions,
  ): void {
    this.canvas.addEventListener(type, act, options);
    this.#stop.push(() => this.canvas.removeEventListener(type, act, options));
  }
}
