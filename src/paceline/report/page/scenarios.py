"""What the engine in the page replays: the typical step, as recorded and under strategies.

A scenario is what `predict` replays, at the grain of single ops, with what sliders need to give
every op another duration: which of them touch it, and what its communication takes on other links.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from paceline.cluster import Cluster
from paceline.cost import calls_of
from paceline.errors import PacelineError
from paceline.graph import Graph, select
from paceline.graph.graph import Int64
from paceline.graph.kinds import NONE
from paceline.predict import Prediction, Question, predict
from paceline.predict.predicting import rates_of
from paceline.replay import Timeline
from paceline.replay.job import ReplayJob, Shares
from paceline.report.page.columns import Column
from paceline.report.page.conditions import conditions
from paceline.report.page.contents import Choice, Kind, Lever, Scenario
from paceline.report.page.pack import PageData
from paceline.report.page.prices import link_prices
from paceline.report.page.tracks import track
from paceline.strategies import Strategy, parse, strategy

BY_NAME = (
    ("compute", "compute", "kind=compute"),
    ("forward", "forward pass", "phase=forward"),
    ("backward", "backward pass", "phase=backward"),
    ("update", "optimizer", "phase=update"),
    ("data", "data loading", "kind=data"),
    ("host", "host calls", "kind=host"),
    ("waits", "waiting for a core", "kind=core_wait"),
    ("communication", "communication", "kind=collective|send|recv|transfer"),
)
"""Sliders over ops: name, label, and what `paceline predict --scale` calls the same ops."""

_BITS = {name: 1 << place for place, (name, *_) in enumerate(BY_NAME)}


@dataclass(frozen=True, eq=False)
class JobOnCluster:
    """What is asked about: a recorded job, and the cluster that it is carried to, if any."""

    graph: Graph
    cluster: Cluster | None = None
    question: Question = field(default_factory=Question)  # cores that are shared, a calibration


UNCHANGED = strategy("scale", select="all", factor=1.0)
"""A change that changes nothing, for which `predict` keeps every op apart."""


def predicted(job: JobOnCluster, changes: Sequence[Strategy] = ()) -> Prediction:
    """As `paceline predict` has it, op by op."""
    return predict(job.graph, (*changes, UNCHANGED), job.cluster, job.question)


def carried(
    job: JobOnCluster, strategies: Sequence[str]
) -> tuple[tuple[Scenario, ...], tuple[Choice, ...]]:
    """The job under each strategy (`workers(count=4)+bf16` is one of two changes); and those that
    cannot be predicted here, with the reason."""
    found, cannot = [], []
    for text in strategies:
        try:
            changes = tuple(parse(part) for part in text.split("+"))
            found.append(scenario(job, text, predicted(job, changes)))
        except PacelineError as error:
            cannot.append(Choice(text, str(error)))
    return tuple(found), tuple(cannot)


def asked_for(job: JobOnCluster, text: str) -> Scenario:
    """The job under strategies that somebody names, with sliders of its own."""
    changes = tuple(parse(part) for part in text.split("+") if part.strip())
    made = predicted(job, changes)
    return replace(scenario(job, text or "as recorded", made), levers=levers(job, made.timeline))


def scenario(job: JobOnCluster, name: str, made: Prediction) -> Scenario:
    """A prediction, with all that the page needs to repeat it at other settings."""
    graph, priced = made.timeline.graph, _priced(job, made.timeline.graph)
    assert made.prices is not None
    return Scenario(
        name=name,
        step_ns=made.step_ns,
        low_ns=made.low_ns,
        high_ns=made.high_ns,
        workers=made.workers,
        period=graph.facts.period,
        overlap=graph.facts.steps_overlap,
        by_class=made.by_class,
        rests_on=tuple(line for line in made.rests_on if str(UNCHANGED) not in line),
        track=track(Kind.PREDICTED, f"predicted, {name}", made.timeline),
        program={
            **_program(graph, made.prices.dur_ns),
            "price_of": Column(priced.columns["price_of"]),
        },
        prices=tuple(priced.facts["prices"]),
        **_sharing(made),
    )


def _sharing(made: Prediction) -> dict[str, Any]:
    """What its ops share with each other while they run."""
    run, timeline = made.run, made.timeline
    assert run is not None
    shares = Shares(run.contention, run.transfers, run.hosts)
    part = conditions(ReplayJob.of(timeline.graph, timeline.dur_ns, shares))
    return {
        "shares": {name: Column(column, typed=True) for name, column in part.columns.items()},
        "loaded": part.facts.get("loaded", False),
        "rests": run.rests,
    }


def levers(job: JobOnCluster, timeline: Timeline) -> tuple[Lever, ...]:
    """Sliders, the links' first; greyed where the file cannot answer."""
    graph = timeline.graph
    talks = len(select(graph, BY_NAME[-1][2]))
    lacks, (rate, latency) = _no_links(job, talks), _links_now(job)
    still = lacks or ("" if latency != 0 else "links without latency: give them one (link.latency)")
    rows = [
        Lever("rate", "link rate", talks, lacks, now=rate or 0.0),
        Lever("latency", "link latency", talks, still, now=latency or 0.0),
    ]
    for name, label, selection in BY_NAME:
        chosen = select(graph, selection)
        count = int((timeline.dur_ns[chosen] != 0).sum())
        if count:
            still = _ON_SHARED_CORES if job.question.machine and name == "communication" else ""
            rows.append(Lever(name, label, count, still, selection))
    return tuple(rows)


_ON_SHARED_CORES = (
    "on shared cores it also waits for its turn, which this file does not scale: "
    "paceline predict RUN --cluster cluster.yaml --cores N --scale kind=collective:0.5"
)


def _links_now(job: JobOnCluster) -> tuple[float | None, float | None]:
    """Rate in bit/s and latency in ns of all links between hosts; None where they differ."""
    cluster = job.cluster
    if cluster is None or any(host.link for host in cluster.hosts):
        return None, None
    return 8 * cluster.link.up_bytes_per_s, float(cluster.link.latency_ns)


def _no_links(job: JobOnCluster, talks: int) -> str:
    if not talks:
        return "no op of this job communicates; record it on two workers or more"
    if job.cluster is None:
        return "this file knows no links: paceline report RUN --cluster cluster.yaml -o report.html"
    return ""


def _program(graph: Graph, dur_ns: Int64) -> dict[str, Column]:
    """Durations, and the sliders that touch each op."""
    touched = np.zeros(len(graph), np.uint8)
    for name, _, selection in BY_NAME:
        touched[select(graph, selection)] |= _BITS[name]
    return {
        "dur": Column(dur_ns),
        "touched": Column(touched),
        "factor": Column(graph.ops.scale_ppb),
    }


def _priced(job: JobOnCluster, graph: Graph) -> PageData:
    """What each distinct communication takes on links of other rates and latencies."""
    if job.cluster is None:
        return PageData({"price_of": np.full(len(graph), NONE, np.int32)}, {"prices": []})
    cluster = job.cluster.with_workers(graph.world_size)
    rates = rates_of(job.question, cluster)
    calls = calls_of(graph, cluster, rates.library_of(cluster))
    return link_prices(graph, cluster, rates, calls)
