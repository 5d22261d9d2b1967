"""`Plan`: strategies in the order in which they are made, and the job that they were chosen for.

A plan is a small JSON file. It is refused where strategies exclude each other, and for another
model, number of workers or version than it was made for. What else its prediction rests on, the
batch and the cluster, it tells too: where they changed it is priced anew (`search.repriced`,
`paceline predict --plan`). Files of format 1, which had neither predictions nor these, are read.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from paceline import __version__
from paceline.cluster import Cluster
from paceline.errors import FileError
from paceline.graph import Graph
from paceline.notebook import InNotebook
from paceline.strategies.named import parse
from paceline.strategies.sends import Sends
from paceline.strategies.strategy import (
    Strategy,
    StrategyError,
    exclude_each_other,
    require_order,
    transformed,
)

_Part = TypeVar("_Part")

_FORMAT = 2
_READ = (1, 2)


@dataclass(frozen=True)
class MadeFor:
    """What a plan's choice rests on. Empty or zero is not known, and not compared."""

    model: str  # digest of the parameters' names and sizes
    world_size: int
    version: str = __version__  # of Paceline
    torch: str = ""  # its version
    batch_bytes: int = 0  # of a rank's batch
    cluster: str = ""  # digest of all that is said of it; empty: as recorded


@dataclass(frozen=True)
class Predicted:
    """What a plan is to bring."""

    step_ns: int
    low_ns: int
    high_ns: int
    batch_ns: float  # for a recorded batch
    unchanged_ns: float | None = None  # for a recorded batch, of the job as it was
    memory_bytes: int | None = None  # at the fullest rank's peak, where it is known


@dataclass(frozen=True)
class Plan(InNotebook):
    """Strategies that go together."""

    strategies: tuple[Strategy, ...]
    made_for: MadeFor | None = None  # None: for any job
    sends: Sends | None = None  # as predicted, where it was
    predicted: Predicted | None = None
    reasons: tuple[str, ...] = ()  # why each part is in it

    def __post_init__(self) -> None:
        for one, other in combinations(self.strategies, 2):
            _require_peace(one, other)
        require_order(self.strategies)


def made_for(
    graph: Graph, strategies: Sequence[Strategy] = (), cluster: Cluster | None = None
) -> MadeFor:
    """What a plan for this recorded job is for. Of the strategies only those count that change how
    many workers there are: others may not fit each of the recorded steps."""
    recruiting = [change for change in strategies if change.recruits]
    sizes = ((p.name, p.size_bytes) for p in graph.facts.parameters)
    return MadeFor(
        digest(sizes),
        transformed(graph, recruiting).world_size,
        torch=graph.meta.get("versions", {}).get("torch", ""),
        batch_bytes=max((held.other for held in graph.facts.memory), default=0),
        cluster=sha256(repr(cluster).encode()).hexdigest()[:16] if cluster else "",
    )


def digest(sizes: Iterable[tuple[str, int]]) -> str:
    """A model by its parameters' names and bytes, in any order."""
    lines = sorted(f"{name} {size_bytes}" for name, size_bytes in sizes)
    return sha256("\n".join(lines).encode()).hexdigest()[:16]


def require_fit(plan: Plan, job: MadeFor) -> None:
    """Refuse a plan that was made for another job."""
    wrong = [name for name in changed(plan, job) if name in _WORDS]
    if wrong and plan.made_for is not None:
        raise StrategyError(
            f"the plan was made for {_WORDS[wrong[0]]} {getattr(plan.made_for, wrong[0])}, and "
            f"this job has {getattr(job, wrong[0])}. Record this job and predict again, or force "
            "the plan (`paceline apply --force`, or a plan without made_for)."
        )


def differences(plan: Plan, graph: Graph, cluster: Cluster | None = None) -> tuple[str, ...]:
    """What of a recorded job, and of what it is to run on, is not as the plan was made for; an
    error where that is the model, the number of workers or a version."""
    if plan.made_for is not None:  # the model first: the changes may not fit another
        require_fit(plan, replace(made_for(graph), world_size=plan.made_for.world_size))
    job = made_for(graph, plan.strategies, cluster)
    require_fit(plan, job)
    return changed(plan, job)


def changed(plan: Plan, job: MadeFor) -> tuple[str, ...]:
    """What of the job is not as the plan was made for; what either does not know is left out."""
    made = plan.made_for
    if made is None:
        return ()
    pairs = ((f.name, getattr(made, f.name), getattr(job, f.name)) for f in fields(MadeFor))
    return tuple(name for name, then, now in pairs if then and now and then != now)


def save_plan(plan: Plan, path: Path) -> None:
    told = {
        "paceline_plan": _FORMAT,
        "strategies": [str(s) for s in plan.strategies],
        "made_for": asdict(plan.made_for) if plan.made_for else None,
        "sends": asdict(plan.sends) if plan.sends else None,
        "predicted": asdict(plan.predicted) if plan.predicted else None,
        "reasons": list(plan.reasons),
    }
    path.write_text(json.dumps(told, indent=2) + "\n")


def load_plan(path: Path) -> Plan:
    try:
        told = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FileError(f"{path} is no plan: {error}. {_WRITE}") from error
    if not isinstance(told, dict) or told.get("paceline_plan") not in _READ:
        raise FileError(f"{path} is no plan of format {' or '.join(map(str, _READ))}. {_WRITE}")
    names = told.get("strategies")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FileError(f"{path}: strategies must be a list of texts such as 'bf16'. {_WRITE}")
    return Plan(
        tuple(parse(name) for name in names),
        _part(path, told, "made_for", MadeFor),
        _part(path, told, "sends", Sends),
        _part(path, told, "predicted", Predicted),
        _part(path, told, "reasons", tuple[str, ...]) or (),
    )


def _part(path: Path, told: Mapping[str, Any], name: str, kind: type[_Part]) -> _Part | None:
    """A part of the file, or None where it has none."""
    if told.get(name) is None:
        return None
    try:
        return msgspec.convert(told[name], kind)
    except msgspec.ValidationError as error:
        raise FileError(f"{path}: {name} does not fit: {error}. {_WRITE}") from error


def _require_peace(one: Strategy, other: Strategy) -> None:
    if exclude_each_other(type(one), type(other)):
        raise StrategyError(
            f"{one} and {other} cannot stand in one plan. Leave one out; `paceline strategies` "
            "lists what excludes what."
        )


_WRITE = (
    "Write one with `paceline search RUN -o FILE`, or `paceline predict RUN --with STRATEGY "
    "--save-plan FILE`."
)
_WORDS = {
    "model": "the model",
    "world_size": "a number of workers of",
    "version": "Paceline",
    "torch": "torch",
}
"""What a plan is refused for in a live job, which knows neither its batch nor its cluster."""
