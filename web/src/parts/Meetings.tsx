/** Collectives and messages: bytes, skew, transfer, bus bandwidth. */

import { useState } from "preact/hooks";
import { barsDrawing } from "../charts/bars";
import { Figure } from "../charts/Figure";
import type { MeetingRow } from "../contents";
import { count, duration, rate, shown, size } from "../format";
import { usePage } from "./App";

const COLUMNS: [string, number, (value: number) => string][] = [
  ["bytes", 6, size], ["skew", 7, duration], ["transfer", 8, duration],
  ["others waited", 9, duration], ["bus", 10, (bytes) => (bytes ? rate(8 * bytes) : "")],
];
const AT_ONCE = 12;

export function Meetings() {
  const { model, goTo } = usePage();
  const { meetings, missing } = model.contents;
  const [by, setBy] = useState(8);
  if (!meetings.rows.length) {
    return (
      <section class="greyed" aria-labelledby="meetings-title">
        <h2 id="meetings-title">Collectives</h2>
        <p>{missing.collectives}</p>
      </section>
    );
  }
  const rows = [...meetings.rows].sort((a, b) => (b[by] as number) - (a[by] as number));
  const [title, , words] = COLUMNS.find(([, at]) => at === by)!;
  const bars = rows.slice(0, AT_ONCE).map((row) => ({
    name: `${row[1] || row[2]}, step ${row[5]}`, value: row[by] as number, text: words(row[by] as number),
  }));
  const find = (row: MeetingRow) => goTo({ op: row[12] });
  return (
    <section aria-labelledby="meetings-title">
      <Figure
        name="meetings"
        title="Collectives"
        words={`${count(meetings.count)} collectives and messages. By group: ${meetings.groups.map(([group, ranks, times, bytes, waiting, transfer]) => `${group || "no group"}, ${ranks} ranks, ${times} times, ${size(bytes)}, waiting ${duration(waiting)}, transfer ${duration(transfer)}`).join("; ")}.`}
        drawing={() => barsDrawing([{ title: `most ${title}`, bars }])}
        table={() => ({
          head: ["instance", "name", "collective", "group", "ranks", "step", "bytes", "skew_ns", "transfer_ns", "waiting_ns", "bus_bytes_per_s", "late_rank", "op"],
          rows: meetings.rows,
        })}
      >
        <table>
          <caption>
            the {Math.min(AT_ONCE, rows.length)} with most {title}, of {count(meetings.count)}
          </caption>
          <thead>
            <tr>
              <th>name</th><th>group</th><th class="number">step</th>
              {COLUMNS.map(([name, at]) => (
                <th key={name} class="number" aria-sort={by === at ? "descending" : "none"}>
                  <button class="quiet" onClick={() => setBy(at)}>{name}{by === at ? " ▾" : ""}</button>
                </th>
              ))}
              <th class="number">last came</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, AT_ONCE).map((row) => (
              <tr key={row[0]}>
                <td><button class="link" onClick={() => find(row)}>{shown(row[1], 50) || row[2]}</button></td>
                <td>{shown(row[3], 30)} <small>({row[4]} ranks)</small></td>
                <td class="number">{row[5]}</td>
                {COLUMNS.map(([name, at, said]) => <td key={name} class="number">{said(row[at] as number)}</td>)}
                <td class="number">rank {row[11]}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {meetings.count > meetings.rows.length && (
          <p class="note">The file holds the {count(meetings.rows.length)} longest; <code>paceline show --collectives --json</code> lists all.</p>
        )}
      </Figure>
    </section>
  );
}
