/** The critical path by kind, layer and op. */

import { barsDrawing } from "../charts/bars";
import { Figure } from "../charts/Figure";
import type { PathRow } from "../contents";
import { duration, share, shown } from "../format";
import { usePage } from "./App";

export function Path() {
  const { contents } = usePage().model;
  const parts: [string, PathRow[]][] = [
    ["by kind", contents.path_by_kind],
    ["by layer", contents.path_by_layer],
    ["by op", contents.path_ops],
  ];
  const filled = parts.filter(([, rows]) => rows.length);
  return (
    <section aria-labelledby="path-title">
      <Figure
        name="path"
        title="What the step hangs on"
        words={`The critical path of ${duration(contents.path_ns)}: ${contents.path_by_kind.map((row) => `${row.name.replace("_", " ")} ${share(row.share_ns, contents.path_ns)}`).join(", ")}. The tables below link into the timeline.`}
        drawing={() => barsDrawing(filled.map(([part, rows]) => ({
          title: part,
          bars: rows.slice(0, 10).map(({ name, share_ns }) => ({ name, value: share_ns, text: duration(share_ns) })),
        })))}
        table={() => ({
          head: ["part", "name", "kind", "times", "time (ns)"],
          rows: parts.flatMap(([part, rows]) => rows.map((r) => [part, r.name, r.detail, r.count, r.share_ns])),
        })}
      >
        <div class="columns">
          {filled.map(([part, rows]) => <Shares key={part} part={part} rows={rows} whole={contents.path_ns} />)}
        </div>
        {!filled.length && <p class="note">No op took any time.</p>}
      </Figure>
    </section>
  );
}

function Shares({ part, rows, whole }: { part: string; rows: PathRow[]; whole: number }) {
  const { goTo } = usePage();
  return (
    <table>
      <caption>{part}</caption>
      <thead class="for-readers"><tr><th>name</th><th>share</th><th>time</th></tr></thead>
      <tbody>
        {rows.filter((row) => row.share_ns).slice(0, 10).map((row) => (
          <tr key={row.name + row.detail}>
            <td>
              <button class="link" disabled={row.op === null} onClick={() => goTo({ op: row.op })}>
                {shown(row.name.replace(/^core_wait$/, "waiting for a core"), 60) || "(no name)"}
              </button>
              {row.count > 1 && part === "by op" && <small> × {row.count}</small>}
            </td>
            <td class="number">{share(row.share_ns, whole)}</td>
            <td class="number meter">
              <i style={{ width: `${Math.max(1, (100 * row.share_ns) / whole)}%` }} />{duration(row.share_ns)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
