/** Why the second run is slower than the first: what changed most first, then where the time went. */

import { barsDrawing } from "../charts/bars";
import { Figure } from "../charts/Figure";
import type { DifferenceData } from "../contents";
import { duration, share, shown, signed } from "../format";
import { usePage } from "./App";

export function Difference() {
  const { contents } = usePage().model;
  const found = contents.difference;
  if (!found) return null;
  const [after, before] = [shown(found.after, 40), shown(found.before, 40)];
  return (
    <section aria-labelledby="difference-title">
      <Figure
        name="difference" title={`${after} against ${before}`} words={wordsOf(found)}
        drawing={() => drawingOf(found)} table={() => tableOf(found)}
      >
        <p class="verdict">{shown(found.verdict)}.</p>
        <Causes found={found} />
        <div class="columns">
          <Changes title="by class of work, on the path that the step hangs on" rows={found.classes} />
          <Changes title="by layer" rows={found.layers} />
        </div>
        {found.ranks.length > 1 && <Ranks found={found} />}
        {found.basis.map((line) => <p key={line} class="note">{shown(line)}</p>)}
      </Figure>
    </section>
  );
}

function wordsOf({ verdict, causes }: DifferenceData): string {
  const told = causes.slice(0, 5).map(({ words, share_ns }) => `${words}: ${signed(share_ns)}`);
  return shown(`${verdict}. What changed most: ${told.join("; ")}.`, 1000);
}

function drawingOf({ causes, classes }: DifferenceData) {
  return barsDrawing([
    { title: "what changed most", bars: causes.map(({ words, share_ns }) => bar(words, share_ns)) },
    { title: "by class of work", bars: classes.map(([name, before, after]) => bar(name, after - before)) },
  ]);
}

const bar = (name: string, ns: number) => ({ name, value: ns, text: signed(ns) });

function tableOf({ causes, classes, layers, ranks }: DifferenceData) {
  const changed = (part: string, rows: DifferenceData["classes"]) =>
    rows.map(([name, before, after]) => [part, name, before, after, after - before]);
  return {
    head: ["part", "name", "before_ns", "after_ns", "change_ns"],
    rows: [
      ...causes.map(({ words, share_ns }) => ["cause", words, "", "", share_ns]),
      ...changed("class", classes),
      ...changed("layer", layers),
      ...ranks.map(([rank, ...states]) => ["rank", `rank ${rank}`, "", "", states.reduce((a, b) => a + b, 0)]),
    ],
  };
}

function Causes({ found: { causes, change_ns } }: { found: DifferenceData }) {
  const { goTo } = usePage();
  const most = Math.max(1, ...causes.map(({ share_ns }) => Math.abs(share_ns)));
  return (
    <table>
      <caption>what changed most</caption>
      <thead>
        <tr><th>cause</th><th class="number">time</th><th class="number">of the change</th><th class="number">give or take</th></tr>
      </thead>
      <tbody>
        {causes.map(({ words, share_ns, noise_ns, track, op }) => (
          <tr key={words}>
            <td>
              {op === null
                ? shown(words)
                : <button class="link" onClick={() => goTo({ op, track })}>{shown(words)}</button>}
            </td>
            <td class="number meter">
              <i style={{ width: `${Math.max(1, (100 * Math.abs(share_ns)) / most)}%` }} />{signed(share_ns)}
            </td>
            <td class="number">{change_ns ? share(share_ns, change_ns) : ""}</td>
            <td class="number">{noise_ns ? duration(noise_ns) : ""}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Changes({ title, rows }: { title: string; rows: DifferenceData["classes"] }) {
  if (!rows.length) return null;
  return (
    <table>
      <caption>{title}</caption>
      <thead>
        <tr><th>name</th><th class="number">before</th><th class="number">after</th><th class="number">change</th></tr>
      </thead>
      <tbody>
        {rows.map(([name, before, after]) => (
          <tr key={name}>
            <td>{shown(name, 60)}</td><td class="number">{duration(before)}</td>
            <td class="number">{duration(after)}</td><td class="number">{signed(after - before)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const STATES = ["computes", "transfers", "waits for ranks", "input", "host, cores and gaps"];
const MOST_RANKS = 16;

function Ranks({ found: { ranks } }: { found: DifferenceData }) {
  return (
    <table>
      <caption>
        by rank; a row sums to the change of the recorded step
        {ranks.length > MOST_RANKS && `; the first ${MOST_RANKS} of ${ranks.length}`}
      </caption>
      <thead><tr><th>rank</th>{STATES.map((state) => <th key={state} class="number">{state}</th>)}</tr></thead>
      <tbody>
        {ranks.slice(0, MOST_RANKS).map(([rank, ...changes]) => (
          <tr key={rank}>
            <td>rank {rank}</td>{changes.map((ns, at) => <td key={STATES[at]} class="number">{signed(ns)}</td>)}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
