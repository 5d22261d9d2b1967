/** A file that cannot be opened: why, and what can still be read of it. */

import type { Contents, Opened } from "../contents";
import { duration, share, shown } from "../format";
import { PlanAlone } from "./PlanAlone";

export function Remains({ reason, contents }: { reason: string; contents: Opened | null }) {
  return (
    <main class="unreadable">
      <h1>This report cannot be opened</h1>
      <p>{reason}</p>
      {contents?.of === "plan" && <PlanAlone plan={contents} />}
      {contents?.of === "run" && <Words contents={contents} />}
    </main>
  );
}

/** What stands in words and tables; timelines and sliders need what is missing. */
function Words({ contents: { title, headline, facts, path_ops, path_ns } }: { contents: Contents }) {
  return (
    <section aria-labelledby="remains-title">
      <h2 id="remains-title">What it says of {shown(title, 80)}</h2>
      {headline.map((sentence, at) => <p key={at}>{shown(sentence.map(({ text }) => text).join(""), 1000)}</p>)}
      <dl class="facts">
        {facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
      </dl>
      <table>
        <caption>Ops on the critical path</caption>
        <tbody>
          {path_ops.map(({ name, share_ns }) => (
            <tr key={name}><td>{shown(name, 120)}</td><td class="number">{duration(share_ns)}</td><td class="number">{share(share_ns, path_ns)}</td></tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
