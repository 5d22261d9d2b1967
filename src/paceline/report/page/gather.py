"""`gather`: a run's page, out of what the other rooms compute."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from paceline import __version__
from paceline.cluster import Cluster
from paceline.compare import Difference
from paceline.errors import PacelineError
from paceline.graph import Graph
from paceline.predict import Candidates, Prediction, Question, predict
from paceline.predict.predicting import ops_beyond
from paceline.replay import Timeline, replay
from paceline.report.page import words
from paceline.report.page.analyses import analyses_of
from paceline.report.page.contents import (
    Choice,
    Compared,
    Contents,
    Kind,
    Lever,
    PlanRow,
    Scenario,
    Sentence,
    Track,
)
from paceline.report.page.difference import compared
from paceline.report.page.intervals import MOST_OPS, Intervals, intervals, relinked
from paceline.report.page.memory import memory_of
from paceline.report.page.rows import (
    kind_rows,
    layer_rows,
    meetings_of,
    op_rows,
    plan_row,
    rank_rows,
    waited_for,
)
from paceline.report.page.scenarios import JobOnCluster, carried, levers, predicted, scenario
from paceline.report.page.tracks import track
from paceline.report.run import RunSummary, summarise_run
from paceline.report.summary import summarise
from paceline.report.text.breakdown import STATES
from paceline.report.text.quantities import duration, share, size
from paceline.strategies import Plan, strategy

_ROWS = 12  # of a table on the page


@dataclass(frozen=True, eq=False)
class PageRequest:
    """What a page is to be of."""

    name: str
    graph: Graph
    other: Graph | None = None  # a second run, shown as measured
    other_name: str = ""
    plan: Plan | None = None
    cluster: Cluster | None = None
    question: Question = field(default_factory=Question)
    strategies: tuple[str, ...] = ()  # that the page can switch on
    folder: Path | None = None  # of the run, which keeps its trace files
    difference: Difference | None = None  # of the second run to the first


@dataclass(frozen=True)
class WhatIf:
    """What the page can answer: its scenarios, the first as recorded, and its sliders."""

    scenarios: tuple[Scenario, ...] = ()
    cannot: tuple[Choice, ...] = ()
    levers: tuple[Lever, ...] = ()
    advice: Sentence = ()
    lacks: str = ""  # why there is none of it


def gather(asked: PageRequest) -> Contents:
    """Everything that the page shows."""
    job = JobOnCluster(asked.graph, asked.cluster, asked.question)
    return _contents(asked, replay(asked.graph), _what_if(job, asked.strategies))


def gather_prediction(made: Prediction, name: str = "prediction") -> Contents:
    """The page of a predicted step, whose timeline stands where a recorded one would."""
    job = JobOnCluster(made.timeline.graph)
    first = scenario(job, "as predicted", made)
    what_if = WhatIf((first,), levers=levers(job, made.timeline))
    timeline = _priced(made.timeline)
    found = _contents(PageRequest(name, timeline.graph), timeline, what_if)
    (recorded,) = found.tracks
    return replace(
        found,
        headline=(words.predicted(made), *found.headline[1:]),
        facts=(("workers", f"{made.workers:,}"), *found.facts[1:2]),
        step_ns=made.step_ns,
        tracks=(replace(recorded, title=name),),
    )


def _priced(timeline: Timeline) -> Timeline:
    """The same of a graph whose ops take as long as they take on it."""
    graph = timeline.graph
    return replace(timeline, graph=replace(graph, ops=replace(graph.ops, dur_ns=timeline.dur_ns)))


def _contents(asked: PageRequest, timeline: Timeline, what_if: WhatIf) -> Contents:
    summary, run = summarise(timeline, _ROWS), summarise_run(timeline)
    other = None if asked.other is None else replay(asked.other)
    memory = memory_of(timeline)
    plan, no_plan = _plan(asked)
    analyses, no_analyses = analyses_of(timeline, asked.folder)
    tracks, places = _tracks(asked, timeline, other)
    contents = Contents(
        title=asked.name,
        version=__version__,
        headline=words.headline(timeline, summary, run, what_if.advice),
        facts=_facts(timeline, run, memory.peak_bytes if memory else 0),
        step_ns=run.median_step_ns,
        steps_ns=run.steps.lasted_ns,
        states=tuple((state, name) for state, (name, *_) in STATES.items()),
        ranks=rank_rows(timeline, summary),
        waited_for=waited_for(timeline, run),
        path_ns=summary.step_ns,
        path_by_kind=kind_rows(timeline, summary.path_by_kind),
        path_by_layer=layer_rows(timeline, summary.path_by_layer),
        path_ops=op_rows(timeline, summary.path_ops),
        tracks=tracks,
        levers=what_if.levers,
        scenarios=what_if.scenarios,
        cannot=what_if.cannot,
        memory=memory,
        meetings=meetings_of(timeline, run),
        plan=plan,
        rests_on=what_if.scenarios[0].rests_on if what_if.scenarios else (),
        notes=run.notes,
        missing={
            **_missing(asked, run, what_if, memory is not None),
            **({"plan": no_plan} if no_plan else {}),
            **({"analyses": no_analyses} if no_analyses else {}),
        },
        difference=None if other is None else _difference(asked, timeline, other),
        analyses=analyses,
    )
    return contents if places is None else relinked(contents, places)


def _difference(asked: PageRequest, timeline: Timeline, other: Timeline) -> Compared | None:
    return None if asked.difference is None else compared(asked.difference, timeline, other)


def _what_if(job: JobOnCluster, strategies: Sequence[str]) -> WhatIf:
    """Nothing where the job cannot be predicted at all; then the page says why."""
    try:
        if job.cluster is None and (ops := ops_beyond(job.graph, MOST_OPS)):
            return WhatIf(lacks=_too_large(ops))  # before anything of it is made
        base = predicted(job)
    except PacelineError as error:
        return WhatIf(lacks=str(error))
    if len(base.timeline.graph) > MOST_OPS:
        return WhatIf(lacks=_too_large(len(base.timeline.graph)))
    first = scenario(job, "as recorded", base)
    others, cannot = carried(job, strategies)
    sliders = levers(job, base.timeline)
    advice = words.best_of(first, others) or words.halved(base.step_ns, _halves(job, sliders))
    return WhatIf((first, *others), cannot, sliders, advice)


def _too_large(ops: int) -> str:
    return (
        f"its typical step is replayed as {ops:,} ops or more, and a page holds up to "
        f"{MOST_OPS:,}; ask the terminal: paceline predict RUN, paceline search RUN"
    )


def _halves(job: JobOnCluster, sliders: Sequence[Lever]) -> tuple[tuple[str, int], ...]:
    """The step where the ops of each slider take half their time; op by op the step is made once
    for all of them."""
    asked = [(lever, lever.selection) for lever in sliders if lever.selection]
    steps = Candidates(job.graph, job.cluster, job.question, memory=False)
    return tuple(
        (lever.label, steps.step_ns((strategy("scale", select=text, factor=0.5),)))
        for lever, text in asked
    )


def _tracks(
    asked: PageRequest, timeline: Timeline, other: Timeline | None
) -> tuple[tuple[Track, ...], Intervals | None]:
    """And where the recorded ops went, if they are drawn as intervals."""
    first, places = _track(Kind.RECORDED, f"recorded, {asked.name}", timeline)
    if other is None:
        return (first,), places
    second, _ = _track(Kind.MEASURED, f"measured, {asked.other_name}", other)
    return (first, second), places


def _track(kind: Kind, title: str, timeline: Timeline) -> tuple[Track, Intervals | None]:
    if len(timeline.graph) <= MOST_OPS:
        return track(kind, title, timeline), None
    made = intervals(kind, title, timeline)
    return made.track, made


def _plan(asked: PageRequest) -> tuple[PlanRow | None, str]:
    """The plan's row, or what would bring one."""
    if asked.plan is None:
        return None, _NO_PLAN
    try:
        before = predict(asked.graph, (), asked.cluster, asked.question)
        after = predict(asked.graph, asked.plan.strategies, asked.cluster, asked.question)
    except PacelineError as error:
        return None, f"The plan cannot be predicted: {error}"
    measured = None if asked.other is None else asked.other.facts.plain_step_ns or None
    return plan_row(asked.plan, before, after, measured), ""


def _facts(timeline: Timeline, run: RunSummary, peak_bytes: int) -> tuple[tuple[str, str], ...]:
    """Short figures under the headline."""
    graph, talk = timeline.graph, run.communication
    moved = talk.hidden_ns + talk.exposed_ns
    found = [("ranks", f"{len(graph.ranks):,}"), ("ops", f"{len(graph):,}")]
    if len(run.steps.number) > 1:
        found.append(("steps recorded", f"{len(run.steps.number)}"))
    if graph.facts.plain_step_ns:
        found.append(("without instruments", duration(graph.facts.plain_step_ns)))
    if moved:
        found.append(("communication hidden", share(talk.hidden_ns, moved) or "none"))
    if peak_bytes:
        found.append(("memory peak", size(peak_bytes)))
    return tuple(found)


def _missing(asked: PageRequest, run: RunSummary, what_if: WhatIf, memory: bool) -> dict[str, str]:
    """What the page cannot show, and what to do about it."""
    found = {}
    if what_if.lacks:
        found["what_if"] = f"This run cannot be predicted: {what_if.lacks}"
    if not asked.strategies:
        found["strategies"] = _NO_STRATEGIES
    if not memory:
        found["memory"] = (
            "The recording does not tell what ops allocate. Record anew with `paceline record`."
        )
    if not run.collectives:
        found["collectives"] = "No op of this run communicates."
    if asked.other is None:
        found["measured"] = "Give a second run to see it below: paceline report RUN RUN2"
    return found


_NO_PLAN = (
    "This file has no plan: paceline predict RUN --with STRATEGY --save-plan plan.json, then "
    "paceline report RUN --plan plan.json"
)
_NO_STRATEGIES = "This file carries no strategies: paceline report RUN --carry 'bf16;buckets'"
