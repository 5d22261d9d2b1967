/** The other runs that are open beside this one. */

import type { Contents } from "../contents";
import { shown } from "../format";

export function Runs({ live }: { live: NonNullable<Contents["live"]> }) {
  if (live.runs.length < 2) return null;
  return (
    <nav aria-label="Runs that are open">
      {live.runs.map((name, at) => (
        <a key={at} href={`../${at}/`} aria-current={at === live.here ? "page" : undefined}>{shown(name, 40)}</a>
      ))}
    </nav>
  );
}
