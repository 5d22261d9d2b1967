/** What analyses tell beyond the step, each folded until it is asked for. */

import { saveCsv } from "../charts/Figure";
import type { AnalysisData } from "../contents";
import { shown } from "../format";
import { usePage } from "./App";

export function Analyses() {
  const { analyses, missing } = usePage().model.contents;
  if (!analyses.length && !missing.analyses) return null;
  return (
    <section class="more" aria-labelledby="more-title">
      <h2 id="more-title">More about this run</h2>
      {analyses.map((each) => <Topic key={each.topic} analysis={each} />)}
      <p class="note">
        Every figure of one of them: <code>paceline show RUN --more TOPIC --json</code>
        {missing.analyses && <>. Not here: {shown(missing.analyses, 400)}</>}
      </p>
    </section>
  );
}

function Topic({ analysis: { topic, title, columns, rows, ops } }: { analysis: AnalysisData }) {
  const name = title.charAt(0).toUpperCase() + title.slice(1);
  return (
    <details>
      <summary>{name}</summary>
      <div class="exports" role="group" aria-label={`Export ${name}`}>
        <button onClick={() => saveCsv(topic, { head: columns, rows })}>CSV</button>
      </div>
      <div class="wide-table" role="region" aria-label={`${name}, table`} tabIndex={0}>
        <table>
          <caption class="for-readers">{name}</caption>
          <thead><tr>{columns.map((column, at) => <th key={at} class={at ? "number" : ""}>{column}</th>)}</tr></thead>
          <tbody>
            {rows.map((row, at) => (
              <tr key={at}>
                {row.map((cell, place) => (
                  <td key={place} class={place ? "number" : ""}>
                    {place ? shown(cell) : <Named text={cell} op={ops[at] ?? null} />}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

/** A link into the timeline, where the row names an op. */
function Named({ text, op }: { text: string; op: number | null }) {
  const { goTo } = usePage();
  if (op === null) return <>{shown(text)}</>;
  return <button class="link" onClick={() => goTo({ op })}>{shown(text) || "(no name)"}</button>;
}
