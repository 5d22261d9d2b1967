/** What a person should know before looking at anything. */

import type { Sentence } from "../contents";
import { duration, shown } from "../format";
import { usePage } from "./App";

export function Headline() {
  const { contents } = usePage().model;
  return (
    <section class="headline" aria-label="In short">
      <h1>{duration(contents.step_ns)} <span>a step</span></h1>
      {contents.headline.map((sentence, at) => <Words key={at} sentence={sentence} />)}
      <dl class="facts">
        {contents.facts.map(([name, value]) => (
          <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
        ))}
      </dl>
      <p class="for-readers">
        What follows: where each rank's time goes, the critical path, the timeline, what if, memory,
        collectives, the plan, and what the prediction rests on.
      </p>
    </section>
  );
}

/** A sentence; what it names links into the timeline. */
function Words({ sentence }: { sentence: Sentence }) {
  const { goTo } = usePage();
  return (
    <p>
      {sentence.map((piece, at) =>
        piece.op === null && piece.span_ns === null
          ? <span key={at}>{shown(piece.text)}</span>
          : <button key={at} class="link" onClick={() => goTo(piece)}>{shown(piece.text, 90)}</button>,
      )}
    </p>
  );
}
