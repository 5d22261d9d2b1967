/** Where each rank's time goes: one bar for each rank, hosts together. */

import { Figure } from "../charts/Figure";
import { palette } from "../charts/palette";
import type { Surface } from "../charts/surface";
import { duration, share } from "../format";
import { usePage } from "./App";
import { Chart, Legend } from "./Chart";

const BAR = 18;
const LABEL = 128;
const MOST = 128;

const SERIES: Record<string, string> = {
  exposed_compute_ns: "compute", overlapped_ns: "overlapped", exposed_transfer_ns: "transfer",
  waiting_ns: "waiting", data_loading_ns: "data", idle_ns: "idle",
};

export function Ranks() {
  const { contents } = usePage().model;
  const { states, waited_for } = contents;
  const ranks = contents.ranks.slice(0, MOST);
  const used = states.map(([, name], at) => ({ name, at })).filter(({ at }) => ranks.some((r) => r.shares_ns[at]));
  const total = Math.max(1, ...ranks.map((rank) => rank.shares_ns.reduce((a, b) => a + b, 0)));
  const label = (rank: number) => `rank ${rank}${waited_for?.[0] === rank ? " ◀" : ""}`;

  const draw = (surface: Surface, width: number) => {
    const colours = palette();
    const room = width - LABEL - 4;
    let [y, host] = [0, -1];
    for (const rank of ranks) {
      if (rank.host !== host && host >= 0) y += 8;
      if (rank.host !== host) {
        surface.text(`host ${rank.host}`, 0, y + BAR / 2, { fill: colours.faint, size: 10 });
        host = rank.host;
      }
      surface.text(label(rank.rank), LABEL - 8, y + BAR / 2, { fill: colours.ink, size: 12, align: "right" });
      let x = LABEL;
      rank.shares_ns.forEach((ns, at) => {
        const wide = (ns / total) * room;
        const name = SERIES[states[at]![0]]!;
        if (wide > 0) surface.rect(x, y, wide, BAR - 4, name === "waiting" ? colours.raised : colours.series[name]!);
        if (wide > 0 && name === "waiting") surface.hatch(x, y, wide, BAR - 4, colours.wait);
        x += wide;
      });
      y += BAR;
    }
  };
  const hosts = new Set(ranks.map((rank) => rank.host)).size;
  const height = ranks.length * BAR + (hosts - 1) * 8;
  const words = waited_for
    ? `Others wait for rank ${waited_for[0]}, ${duration(waited_for[1])} in all. `
    : "No rank is waited for much. ";

  return (
    <section aria-labelledby="ranks-title">
      <Figure
        name="ranks"
        title="Where each rank’s time goes"
        words={words + ranks.slice(0, 16).map((rank) => `Rank ${rank.rank}: ${used.map(({ name, at }) => `${name} ${share(rank.shares_ns[at]!, total)}`).join(", ")}`).join(". ")}
        drawing={() => ({ width: 700, height: height + 4, draw: (surface) => draw(surface, 700) })}
        table={() => ({
          head: ["host", "rank", ...states.map(([, name]) => `${name} (ns)`)],
          rows: contents.ranks.map((rank) => [rank.host, rank.rank, ...rank.shares_ns]),
        })}
      >
        <Legend items={used.map(({ name, at }) => [SERIES[states[at]![0]]!, name])} />
        <Chart height={height} draw={draw} />
        {waited_for && (
          <p class="note">◀ Others wait for rank {waited_for[0]}: {duration(waited_for[1])} in all recorded steps.</p>
        )}
        {contents.ranks.length > MOST && <p class="note">The first {MOST} of {contents.ranks.length} ranks; the CSV has all.</p>}
      </Figure>
    </section>
  );
}
