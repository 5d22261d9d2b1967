"""`Side`: all that a comparison asks of one run."""

from dataclasses import dataclass, replace
from pathlib import Path

from paceline.compare.neighbours import others_ns
from paceline.compare.noise import Steps
from paceline.compare.places import Spent, spent_of
from paceline.compare.states import States, states_of
from paceline.compare.traits import Traits, traits_of
from paceline.compare.trued import plain_runs_ns, trued
from paceline.graph import Graph
from paceline.record import sidecar
from paceline.replay import replay
from paceline.replay.steps import step_times
from paceline.trace.plain import all_plain_sides
from paceline.trace.runs import open_run


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two runs."""

    name: str
    graph: Graph  # whose ops the times are of
    steps: Steps
    spent: Spent
    states: States
    traits: Traits
    others_ns: float | None = None  # what other programs ran beside a step; None where unknown

    @property
    def recorded_ns(self) -> float:
        """A recorded step, the mean: what the places sum to."""
        return float(self.spent.path_ns.sum(axis=0).mean())


def side_of(path: str | Path) -> Side:
    """Of a run or a graph's folder. A recording's steps without instruments are its steps; where
    there are none, as in an import, the recorded ones are."""
    path = Path(path)
    recorded = [sidecar.read(file) for file in sorted(path.glob("rank-*.facts.jsonl"))]
    before, after = all_plain_sides(recorded) if recorded else ([], [])
    stretches = tuple(tuple(each) for each in (before, after) if each)
    graph = trued(open_run(path), plain_runs_ns(recorded))
    side = side_of_graph(graph, path.name, Steps(stretches) if stretches else None)
    return replace(side, others_ns=others_ns(recorded))


def side_of_graph(graph: Graph, name: str, steps: Steps | None = None) -> Side:
    """Of a graph; `steps` where they are known from steps without instruments."""
    timeline = replay(graph)
    recorded = Steps((step_times(timeline).lasted_ns or (timeline.step_ns,),), plain=False)
    return Side(
        name,
        graph,
        steps or recorded,
        spent_of(timeline),
        states_of(timeline),
        traits_of(graph),
    )
