/** What a served page can ask beyond what it holds: any strategy, any cluster, a search. */

import { useEffect, useState } from "preact/hooks";
import { change, duration, shown } from "../format";
import { usePage } from "../parts/App";
import { predicted, type Search, searchSoFar, startSearch, stopSearch } from "./server";

const EFFECTS = ["exact", "lossy", "relaxed"];
const BUDGETS_S = [10, 30, 120, 600];
const EVERY_MS = 500;

export function Ask() {
  const [cluster, setCluster] = useState("");
  const [says, setSays] = useState("");
  const [busy, setBusy] = useState(false);
  const show = useShow(cluster, setBusy, setSays);
  return (
    <fieldset class="ask">
      <legend>Ask for more</legend>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const text = new FormData(event.currentTarget).get("strategies");
          void show(String(text ?? "").trim());
        }}
      >
        <label>Strategies <input name="strategies" placeholder="bf16+workers(count=4)" spellcheck={false} /></label>
        <button disabled={busy}>Predict</button>
      </form>
      <details>
        <summary>On another cluster</summary>
        <label>
          Cluster (YAML)
          <textarea
            rows={5} spellcheck={false} placeholder={"hosts: 4\nlink: {rate: 10Gbps, latency: 50us}"}
            value={cluster} onInput={(event) => setCluster(event.currentTarget.value)}
          />
        </label>
      </details>
      <SearchFor cluster={cluster} show={show} says={setSays} />
      <p role="status" class="lacks">{says}</p>
    </fieldset>
  );
}

/** Predicts, and switches the page to what came back. */
function useShow(
  cluster: string, busy: (now: boolean) => void, says: (words: string) => void,
): (strategies: string) => Promise<void> {
  const { model, store } = usePage();
  return async (strategies) => {
    busy(true);
    says("");
    try {
      const { scenarios } = model.contents;
      const found = await predicted(strategies, cluster);
      const name = cluster.trim() ? `${found.name} on another cluster` : found.name;
      scenarios.push({ ...found, name, changes: found.name });
      store.set({ scenario: scenarios.length - 1, chosen: null, sliders: {} });
    } catch (error) {
      says((error as Error).message);
    }
    busy(false);
  };
}

interface SearchProps {
  cluster: string;
  show(strategies: string): Promise<void>;
  says(words: string): void;
}

function SearchFor({ cluster, show, says }: SearchProps) {
  const [now, setNow] = useState<Search | null>(null);
  const running = now !== null && now.ended === null;
  const number = now?.search ?? -1;
  const follow = (asked: Promise<Search>) => asked.then(setNow, (error: Error) => says(error.message));
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(() => void follow(searchSoFar(number)), EVERY_MS);
    return () => clearInterval(timer);
  }, [running, number]);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        says("");
        const wanted = new FormData(event.currentTarget);
        void follow(startSearch(String(wanted.get("allow")), Number(wanted.get("budget")), cluster));
      }}
    >
      <label>Search plans that are <select name="allow">{EFFECTS.map((each) => <option key={each}>{each}</option>)}</select></label>
      <label>for <select name="budget">{BUDGETS_S.map((each) => <option key={each} value={each} selected={each === 30}>{each} s</option>)}</select></label>
      {running
        ? <button type="button" onClick={() => void follow(stopSearch(number))}>Stop</button>
        : <button>Search</button>}
      {now && <Progress now={now} show={show} />}
    </form>
  );
}

function Progress({ now, show }: { now: Search; show(strategies: string): Promise<void> }) {
  if (now.error) return <p role="status">{now.error}</p>;
  const { best, unchanged } = now;
  return (
    <div role="status">
      {now.ended === null && <progress max={now.budget_s} value={now.spent_s} aria-label="Time of the search" />}
      <p>{now.tried} plans tried, the best {duration(best?.batch_ns ?? now.best_ns)} for a batch.</p>
      {best && unchanged && (
        best.plan
          ? (
            <>
              <p><b>{shown(best.plan, 200)}</b> ({best.effect}): {change(best.batch_ns, unchanged.batch_ns)}</p>
              <ul>{best.reasons.map((reason) => <li key={reason}>{shown(reason, 200)}</li>)}</ul>
              <button type="button" onClick={() => void show(best.plan)}>Show it</button>
            </>
          )
          : <p>Nothing helps: keep the job as it is.</p>
      )}
    </div>
  );
}
