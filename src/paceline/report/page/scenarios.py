"""What the engine in the page replays: the typical step, as recorded and under strategies.

A scenario is what `predict` replays, at the grain of single ops, with what sliders need to give
every op another duration. With all links slid together, to k times their rate and so many ns more
latency, a communication takes `fixed + latency * ns + inverse / k`: a collective's rounds add up,
and the fullest link of each stays the fullest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.cluster import Cluster, Link
from paceline.errors import PacelineError
from paceline.graph import Graph, select
from paceline.graph.border import UNSCALED
from paceline.graph.graph import Int64
from paceline.graph.kinds import NONE
from paceline.graph.membership import TALKS
from paceline.predict import Prediction, Question, predict
from paceline.predict.predicting import placed
from paceline.replay import Timeline
from paceline.report.page.block import Column
from paceline.report.page.contents import Choice, Kind, Lever, Scenario
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

_LATER_NS = 1000
_BITS = {name: 1 << place for place, (name, *_) in enumerate(BY_NAME)}


@dataclass(frozen=True, eq=False)
class Job:
    """What is asked about: a recorded job, and the cluster that it is carried to, if any."""

    graph: Graph
    cluster: Cluster | None = None


UNCHANGED = strategy("scale", select="all", factor=1.0)
"""A change that changes nothing, for which `predict` keeps every op apart."""


def predicted(job: Job, changes: Sequence[Strategy] = ()) -> Prediction:
    """As `paceline predict` has it, op by op."""
    return predict(job.graph, (*changes, UNCHANGED), job.cluster)


def carried(job: Job, strategies: Sequence[str]) -> tuple[tuple[Scenario, ...], tuple[Choice, ...]]:
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


def scenario(job: Job, name: str, made: Prediction) -> Scenario:
    """A prediction, with all that the page needs to repeat it at other settings."""
    graph = made.timeline.graph
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
        program=_program(job, graph, made.timeline.dur_ns),
    )


def levers(job: Job, timeline: Timeline) -> tuple[Lever, ...]:
    """Sliders, the links' first; greyed where the file cannot answer."""
    graph = timeline.graph
    talks = len(select(graph, BY_NAME[-1][2]))
    lacks, (rate, latency) = _no_links(job, talks), _links_now(job)
    rows = [
        Lever("rate", "link rate", talks, lacks, now=rate),
        Lever("latency", "link latency", talks, lacks, now=latency),
    ]
    for name, label, selection in BY_NAME:
        chosen = select(graph, selection)
        count = int((timeline.dur_ns[chosen] != 0).sum())
        if count:
            rows.append(Lever(name, label, count, "", selection))
    return tuple(rows)


def _links_now(job: Job) -> tuple[float, float]:
    """Rate in bit/s and latency in ns of all links; 0 where they differ."""
    cluster = job.cluster
    if cluster is None or any(host.link or host.fabric for host in cluster.hosts):
        return 0.0, 0.0
    return 8 * cluster.link.up_bytes_per_s, float(cluster.link.latency_ns)


def _no_links(job: Job, talks: int) -> str:
    if not talks:
        return "no op of this job communicates; record it on two workers or more"
    if job.cluster is None:
        return "this file knows no links: paceline report RUN --cluster cluster.yaml -o report.html"
    return ""


def _program(job: Job, graph: Graph, dur_ns: Int64) -> dict[str, Column]:
    """Durations, the sliders that touch each op, and the terms of communication's times."""
    touched = np.zeros(len(graph), np.uint8)
    for name, _, selection in BY_NAME:
        touched[select(graph, selection)] |= _BITS[name]
    found = {"dur": Column(dur_ns), "touched": Column(touched)}
    return found if job.cluster is None else {**found, **_terms(job.cluster, graph)}


def _terms(cluster: Cluster, graph: Graph) -> dict[str, Column]:
    """For each distinct time of a communication its three terms, in picoseconds, and for each op
    which of them it has (-1: none)."""
    talks = TALKS[graph.ops.kind] & (graph.ops.group != NONE)
    base, half = _times_ps(cluster, graph), _times_ps(_slid(cluster, 0.5), graph)
    late = _times_ps(_slid(cluster, 1.0, _LATER_NS), graph)
    inverse, latency = half - base, (late - base) // _LATER_NS
    terms = np.stack([base - inverse, latency, inverse])[:, talks]
    distinct, which = np.unique(terms, axis=1, return_inverse=True)
    call = np.full(len(graph), -1, np.int64)
    call[talks] = which.reshape(-1)
    names = ("fixed", "latency", "inverse")
    return {
        "call": Column(call),
        "factor": Column(graph.ops.scale_ppb),
        **{name: Column(row) for name, row in zip(names, distinct)},
    }


def _times_ps(cluster: Cluster, graph: Graph) -> Int64:
    """What every communication takes on that cluster, before factors of changes."""
    finer = np.full(len(graph), UNSCALED * 1000, np.int64)
    plain = replace(graph, ops=replace(graph.ops, scale_ppb=finer))
    return placed(plain, cluster, Question()).prices.dur_ns


def _slid(cluster: Cluster, rate: float, added_ns: int = 0) -> Cluster:
    """All links, those inside hosts too, with so many times the rate and so much more latency."""

    def slid(link: Link) -> Link:
        up, down = link.up_bytes_per_s * rate, link.down_bytes_per_s * rate
        later = link.latency_ns + added_ns
        return replace(link, up_bytes_per_s=up, down_bytes_per_s=down, latency_ns=later)

    hosts = tuple(
        replace(
            host,
            link=slid(host.link) if host.link else None,
            fabric=slid(host.fabric) if host.fabric else None,
        )
        for host in cluster.hosts
    )
    return replace(cluster, hosts=hosts, link=slid(cluster.link))
