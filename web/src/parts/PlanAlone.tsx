/** The page of a plan without a run: what it does and why, what it is to bring, what it is for. */

import type { PlanAloneData } from "../contents";
import { shown } from "../format";
import { Top, Written } from "./Top";

const LONGEST = 1000;

export function PlanPage({ plan }: { plan: PlanAloneData }) {
  return (
    <>
      <Top title={plan.title} />
      <main><PlanAlone plan={plan} /></main>
      <Written version={plan.version} />
    </>
  );
}

export function PlanAlone({ plan }: { plan: PlanAloneData }) {
  return (
    <>
      <section class="headline" aria-label="In short">
        <h1>{plan.step ? <>{plan.step} <span>a step, as predicted</span></> : "A plan"}</h1>
        {plan.headline.map((sentence) => <p key={sentence}>{shown(sentence, LONGEST)}</p>)}
      </section>
      <Strategies plan={plan} />
      <div class="sheet">
        <Rows name="predicted" title="What it is to bring" rows={plan.predicted} lacks={plan.missing.predicted} />
        <Rows name="made-for" title="What it was made for" rows={plan.made_for} lacks={plan.missing.made_for} />
      </div>
      <p class="note">{plan.missing.run}</p>
    </>
  );
}

function Strategies({ plan: { parts, reasons } }: { plan: PlanAloneData }) {
  if (!parts.length && !reasons.length) return null;
  return (
    <section aria-labelledby="strategies-title">
      <h2 id="strategies-title">Strategies, and why</h2>
      <ol class="strategies">
        {parts.map(({ strategy, does, why }) => (
          <li key={strategy}>
            <code>{shown(strategy, LONGEST)}</code>
            <p>{shown(does, LONGEST)}.</p>
            {why && <p class="note">{shown(why, LONGEST)}</p>}
          </li>
        ))}
      </ol>
      {reasons.map((reason) => <p key={reason}>{shown(reason, LONGEST)}</p>)}
    </section>
  );
}

interface RowsProps {
  name: string;
  title: string;
  rows: [string, string][];
  /** Why there are none. */
  lacks: string | undefined;
}

function Rows({ name, title, rows, lacks }: RowsProps) {
  return (
    <section class={rows.length ? "" : "greyed"} aria-labelledby={`${name}-title`}>
      <h2 id={`${name}-title`}>{title}</h2>
      {lacks && <p>{lacks}</p>}
      {rows.length > 0 && (
        <table>
          <tbody>
            {rows.map(([what, value]) => (
              <tr key={what}><th scope="row">{what}</th><td class="number">{shown(value)}</td></tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
