/** What if: sliders and switches, and the step that they predict, re-simulated as they move. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Figure } from "../charts/Figure";
import { palette } from "../charts/palette";
import { drawStack, type Stack } from "../charts/stacked";
import { Stacked } from "../charts/Stacked";
import type { Lever } from "../contents";
import { change, duration, shown } from "../format";
import { Ask } from "../live/Ask";
import { usePage, useStore } from "../parts/App";
import { type CurvePoint, enough, followCurve } from "./curve";
import { commandOf, factorAt, rangeOf, settingOf, short, textAt } from "./levers";
import type { Told } from "./program";
import type { Parts } from "./step";

export function WhatIf() {
  const { model } = usePage();
  const { scenarios, missing } = model.contents;
  if (!scenarios.length) {
    return (
      <section class="greyed" aria-labelledby="whatif-title">
        <h2 id="whatif-title">What if</h2>
        <p>{missing.what_if}</p>
      </section>
    );
  }
  return <Answers />;
}

function Answers() {
  const { model, store } = usePage();
  const sliders = useStore((state) => state.sliders);
  const scenario = useStore((state) => Math.min(state.scenario, model.contents.scenarios.length - 1));
  const levers = model.levers(scenario);
  const answer = useAnswer(sliders, scenario);
  const data = model.contents.scenarios[scenario]!;
  const base = model.contents.scenarios[0]!.step_ns;
  const step = answer?.stepNs ?? data.step_ns;
  const touched = Object.values(sliders).some(Boolean);
  const curve = useCurve(sliders, scenario);
  const words = `Predicted step ${duration(step)}, ${change(step, base)} against ${duration(base)}. ${curve.words}`;
  return (
    <section id="whatif" class="wide" aria-labelledby="whatif-title">
      <Figure
        name="whatif"
        title="What if"
        words={words}
        drawing={() => ({ width: 800, height: 320, draw: (surface) => drawStack(surface, curve.stack, 800, 320) })}
        table={() => curve.table}
      >
        <div class="whatif">
          <div class="levers">
            <Scenarios scenario={scenario} />
            {model.contents.live && <Ask />}
            {levers.map((lever) => <Slider key={lever.name} lever={lever} position={sliders[lever.name] ?? 0} />)}
            <p>
              <button disabled={!touched} onClick={() => store.set({ sliders: {} })}>Put all back</button>
            </p>
          </div>
          <div class="answer">
            <p class="big" data-step-ns={step}>
              <output aria-live="polite">{duration(step)}</output>
              <span>
                {touched || scenario
                  ? `${change(step, base)} against ${duration(base)}`
                  : `predicted, nothing changed; typical error ${duration(data.low_ns)} to ${duration(data.high_ns)}`}
              </span>
            </p>
            {answer && <PartsBar parts={answer.parts} />}
            {model.engine ? (
              <>
                <p class="note">The step over {curve.label}; {curve.words}</p>
                <Stacked stack={curve.stack} height={230} />
              </>
            ) : <p class="lacks">The sliders rest: {model.lacks}.</p>}
            <p class="note">The same in a terminal: <code>{commandOf(levers, sliders, data)}</code></p>
          </div>
        </div>
      </Figure>
    </section>
  );
}

/** Strategies that this file carries, one at a time. */
function Scenarios({ scenario }: { scenario: number }) {
  const { model, store } = usePage();
  const { scenarios, cannot, missing } = model.contents;
  return (
    <fieldset>
      <legend>Strategy</legend>
      {scenarios.map(({ name, step_ns }, at) => (
        <label key={name}>
          <input
            type="radio" name="scenario" checked={at === scenario}
            onChange={() => store.set({ scenario: at, chosen: null })}
          />
          <span>{shown(name, 60)}</span> <small>{duration(step_ns)}</small>
        </label>
      ))}
      {cannot.map(({ name, why_not }) => (
        <label key={name} class="greyed"><input type="radio" disabled /> <span>{shown(name, 60)}</span><small>{shown(why_not)}</small></label>
      ))}
      {missing.strategies && <p class="greyed">{missing.strategies}</p>}
    </fieldset>
  );
}

function Slider({ lever, position }: { lever: Lever; position: number }) {
  const { model, store } = usePage();
  const { least, most } = rangeOf(lever);
  const lacks = lever.why_not || (model.engine ? "" : model.lacks);
  const slide = (value: number) =>
    store.set({ sliders: { ...store.state.sliders, [lever.name]: value }, curve: lever.name });
  return (
    <div class={lacks ? "slider greyed" : "slider"}>
      <label for={`slide-${lever.name}`}>{lever.label}</label>
      <output for={`slide-${lever.name}`}>{lacks ? "" : textAt(lever, position)}</output>
      <input
        id={`slide-${lever.name}`} type="range" min={least} max={most} step={1} value={position}
        disabled={Boolean(lacks)} aria-valuetext={textAt(lever, position)}
        aria-describedby={lever.why_not ? `lacks-${lever.name}` : undefined}
        onInput={(event) => {
          noteMovement(event.timeStamp);
          slide(Number(event.currentTarget.value));
        }}
        onDblClick={() => slide(0)}
      />
      {lever.why_not && <small id={`lacks-${lever.name}`}>{lever.why_not}</small>}
    </div>
  );
}

const PARTS: [keyof Parts, string][] = [
  ["compute", "compute"], ["hidden", "communication hidden by compute"],
  ["exposed", "exposed communication and waiting"], ["other", "host, data, gaps"],
];

function PartsBar({ parts }: { parts: Parts }) {
  const colours = palette();
  const whole = PARTS.reduce((sum, [name]) => sum + parts[name], 0) || 1;
  return (
    <div class="parts">
      <div class="bar" aria-hidden="true">
        {PARTS.map(([name]) => <i key={name} style={{ width: `${(100 * parts[name]) / whole}%`, background: colours.series[name] }} />)}
      </div>
      <ul class="legend">
        {PARTS.map(([name, words]) => (
          <li key={name}><i style={{ background: colours.series[name] }} aria-hidden="true" />{words} {duration(parts[name])}</li>
        ))}
      </ul>
    </div>
  );
}

const FIRST_MS = 120; // the timeline comes first

const MOVED = "paceline-moved";
const REDRAWN = "paceline-redrawn";

/** A slider moved; until the page shows what that means, further movements are part of it. */
function noteMovement(startTime: number): void {
  if (!performance.getEntriesByName(MOVED).length) performance.mark(MOVED, { startTime });
}

function noteRedrawn(): void {
  if (performance.getEntriesByName(MOVED).length) performance.measure(REDRAWN, MOVED);
  performance.clearMarks(MOVED);
}

/** The engine's answer to how the sliders stand: at once, but not twice in one frame. */
function useAnswer(sliders: Record<string, number>, scenario: number): Told | null {
  const { model, view } = usePage();
  const [answer, setAnswer] = useState<Told | null>(null);
  const opened = useRef(false);
  const answered = useRef(false); // in this frame
  useLayoutEffect(() => {
    if (!model.engine) return;
    const find = () => setAnswer(model.scenario(scenario).show(settingOf(model.levers(scenario), sliders)));
    if (!opened.current) {
      const idle = setTimeout(() => {
        opened.current = true;
        find();
      }, FIRST_MS);
      return () => clearTimeout(idle);
    }
    if (answered.current) {
      const frame = requestAnimationFrame(find);
      return () => cancelAnimationFrame(frame);
    }
    answered.current = true;
    requestAnimationFrame(() => (answered.current = false));
    find();
  }, [sliders, scenario]);
  useLayoutEffect(() => {
    if (!answer) return;
    view.current?.draw();
    noteRedrawn();
  }, [answer]);
  return answer;
}

interface Curve {
  stack: Stack;
  label: string;
  words: string;
  table: { head: string[]; rows: (string | number)[][] };
}

const ENOUGH: Record<string, string> = { rate: "the network", communication: "the network", latency: "latency" };

/** The curve over the quantity that was slid last; replayed when any other slider moves. */
function useCurve(sliders: Record<string, number>, scenario: number): Curve {
  const { model, theme } = usePage();
  const levers = model.levers(scenario);
  const chosen = useStore((state) => state.curve);
  const able = levers.filter((lever) => !lever.why_not);
  const lever =
    able.find(({ name }) => name === chosen) ?? able.find(({ name }) => name === "rate") ??
    able.find(({ name }) => name === "communication") ?? able[0]!;
  const [points, setPoints] = useState<CurvePoint[]>([]);
  const others = JSON.stringify({ ...sliders, [lever?.name ?? ""]: 0, scenario, of: lever?.name });
  useEffect(() => {
    if (!model.engine || !lever) return;
    return followCurve(model.scenario(scenario), levers, sliders, lever, setPoints);
  }, [others]);
  const values = useMemo(() => pointsOf(points), [points, theme]);
  const from = enough(points);
  const matters = ENOUGH[lever?.name ?? ""];
  const marks = [{ x: factorAt(sliders[lever?.name ?? ""] ?? 0), label: "now" }];
  const ends = from !== null && lever && from > rangeOf(lever).least && from < rangeOf(lever).most;
  if (ends && matters) marks.push({ x: factorAt(from), label: `${matters} stops mattering` });
  const words = !lever || !points.length ? "" : ends && matters
    ? `from ${textAt(lever, from)} on ${matters} matters less than 1 %.`
    : ends ? `from ${textAt(lever, from)} on it matters less than 1 %.` : "";
  return {
    label: lever?.label ?? "",
    words,
    stack: { ...values, marks, stepped: false, logarithmic: true, xText: (x) => axisText(lever, x), yText: duration },
    table: {
      head: [`${lever?.label} (times)`, "step_ns", ...PARTS.map(([name]) => `${name}_ns`)],
      rows: points.map(({ position, stepNs, parts }) => [factorAt(position), stepNs, ...PARTS.map(([name]) => Math.round(parts[name]))]),
    },
  };
}

function pointsOf(points: CurvePoint[]): Pick<Stack, "x" | "series"> {
  const colours = palette();
  return {
    x: points.map(({ position }) => factorAt(position)),
    series: PARTS.map(([name, label]) => ({
      name: label, colour: colours.series[name]!, values: points.map(({ parts }) => parts[name]),
    })),
  };
}

function axisText(lever: Lever | undefined, factor: number): string {
  if (!lever?.now) return `${short(factor)} ×`;
  return textAt(lever, Math.log2(factor) * 4);
}
