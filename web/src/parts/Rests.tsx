/** What the predictions rest on, and what was inferred, repaired or left out. */

import { shown } from "../format";
import { usePage } from "./App";

export function Rests() {
  const { contents, lacks } = usePage().model;
  return (
    <section class="rests" aria-labelledby="rests-title">
      <h2 id="rests-title">What the prediction rests on</h2>
      <ul>
        {contents.rests_on.map((reason) => <li key={reason}>{shown(reason)}</li>)}
        {!contents.rests_on.length && <li>{contents.missing.what_if ?? "nothing was predicted"}</li>}
        {lacks && <li>The engine rests: {lacks}.</li>}
      </ul>
      {contents.notes.length > 0 && (
        <>
          <h3>Notes on the recording</h3>
          <ul>{contents.notes.map((note) => <li key={note}>{shown(note)}</li>)}</ul>
        </>
      )}
    </section>
  );
}
