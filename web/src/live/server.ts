/** What a served page asks its server; src/paceline/viewer/server.py answers. */

import type { ScenarioData } from "../contents";
import { read } from "../unpack";

export interface Candidate {
  plan: string;
  step_ns: number;
  batch_ns: number;
  effect: string;
  reasons: string[];
}

/** How far a search is; `ended` says why it went no further. */
export interface Search {
  search: number;
  tried: number;
  best_ns: number;
  spent_s: number;
  budget_s: number;
  ended: "done" | "budget" | "interrupted" | "refused" | null;
  best?: Candidate;
  unchanged?: Candidate;
  error?: string;
}

/** The job under strategies, as in `bf16+workers(count=4)`, on the page's cluster or another. */
export async function predicted(strategies: string, cluster: string): Promise<ScenarioData> {
  const answer = await posted("predict", { strategies, cluster });
  return read<ScenarioData>(new Uint8Array(await answer.arrayBuffer()));
}

export const startSearch = (allow: string, budget_s: number, cluster: string): Promise<Search> =>
  told(posted("search", { allow, budget_s, cluster }));

export const searchSoFar = (number: number): Promise<Search> => told(sound(fetch(`../search/${number}`)));

export const stopSearch = (number: number): Promise<Search> => told(posted(`../search/${number}/stop`, {}));

const posted = (path: string, body: object): Promise<Response> =>
  sound(fetch(path, { method: "POST", body: JSON.stringify(body) }));

async function told(answer: Promise<Response>): Promise<Search> {
  return (await answer).json() as Promise<Search>;
}

/** The answer, or an error in the server's own words. */
async function sound(asked: Promise<Response>): Promise<Response> {
  const answer = await asked.catch(() => {
    throw new Error("the server does not answer: `paceline view` was ended");
  });
  if (answer.ok) return answer;
  const { error } = (await answer.json()) as { error: string };
  throw new Error(error);
}
