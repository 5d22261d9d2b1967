/** The plan and its verdict, where the file has one. */

import { change, duration, shown } from "../format";
import { usePage } from "./App";

export function Plan() {
  const { contents } = usePage().model;
  const { plan, missing } = contents;
  if (!plan) {
    return (
      <section class="greyed" aria-labelledby="plan-title">
        <h2 id="plan-title">Plan and verdict</h2>
        <p>{missing.plan}</p>
      </section>
    );
  }
  return (
    <section aria-labelledby="plan-title">
      <h2 id="plan-title">Plan and verdict</h2>
      <p>
        {plan.strategies.map((each) => <code key={each}>{shown(each)}</code>)} takes a step from {duration(plan.before_ns)} to {duration(plan.after_ns)} ({change(plan.after_ns, plan.before_ns)}; typical error {duration(plan.low_ns)} to {duration(plan.high_ns)}).
      </p>
      <p>
        {plan.measured_ns === null
          ? "It was not measured: run it with `paceline apply`, record that run, and give it as RUN2."
          : `Measured: ${duration(plan.measured_ns)}, so the prediction is ${change(1 + plan.error!, 1)} off, ${plan.within ? "within" : "outside"} its typical error.`}
      </p>
      <table>
        <caption>a mean worker’s step</caption>
        <thead><tr><th>class</th><th>before</th><th>after</th></tr></thead>
        <tbody>
          {plan.classes.map(([name, before, after]) => (
            <tr key={name}><td>{name}</td><td class="number">{duration(before)}</td><td class="number">{duration(after)}</td></tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
