"""`Plan`: strategies in the order in which they are made, and the job that they were chosen for.

A plan is a small JSON file. It is refused where strategies exclude each other, and for another
model, number of workers or version than it was made for.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec

from paceline import __version__
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

_FORMAT = 1


@dataclass(frozen=True)
class MadeFor:
    """What a plan's choice rests on."""

    model: str  # digest of the parameters' names and sizes
    world_size: int
    version: str = __version__  # of Paceline


@dataclass(frozen=True)
class Plan(InNotebook):
    """Strategies that go together."""

    strategies: tuple[Strategy, ...]
    made_for: MadeFor | None = None  # None: for any job
    sends: Sends | None = None  # as predicted, where it was

    def __post_init__(self) -> None:
        for one, other in combinations(self.strategies, 2):
            _require_peace(one, other)
        require_order(self.strategies)


def made_for(graph: Graph, strategies: Sequence[Strategy] = ()) -> MadeFor:
    """What a plan for this recorded job is for; the strategies may change how many workers."""
    sizes = ((p.name, p.size_bytes) for p in graph.facts.parameters)
    return MadeFor(digest(sizes), transformed(graph, strategies).world_size)


def digest(sizes: Iterable[tuple[str, int]]) -> str:
    """A model by its parameters' names and bytes, in any order."""
    lines = sorted(f"{name} {size_bytes}" for name, size_bytes in sizes)
    return sha256("\n".join(lines).encode()).hexdigest()[:16]


def require_fit(plan: Plan, job: MadeFor) -> None:
    """Refuse a plan that was made for another job."""
    made = plan.made_for
    if made is None or made == job:
        return
    wrong = next(f.name for f in fields(MadeFor) if getattr(made, f.name) != getattr(job, f.name))
    raise StrategyError(
        f"the plan was made for {_WORDS[wrong]} {getattr(made, wrong)}, and this job has "
        f"{getattr(job, wrong)}. Record this job and predict again, or force the plan "
        "(`paceline apply --force`, or a plan without made_for)."
    )


def save_plan(plan: Plan, path: Path) -> None:
    made = asdict(plan.made_for) if plan.made_for else None
    told = {"paceline_plan": _FORMAT, "strategies": [str(s) for s in plan.strategies]}
    sends = asdict(plan.sends) if plan.sends else None
    path.write_text(json.dumps({**told, "made_for": made, "sends": sends}, indent=2) + "\n")


def load_plan(path: Path) -> Plan:
    try:
        told = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FileError(f"{path} is no plan: {error}. {_WRITE}") from error
    if not isinstance(told, dict) or told.get("paceline_plan") != _FORMAT:
        raise FileError(f"{path} is no plan of format {_FORMAT}. {_WRITE}")
    names = told.get("strategies")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FileError(f"{path}: strategies must be a list of texts such as 'bf16'. {_WRITE}")
    strategies, sends = tuple(parse(name) for name in names), _sends(path, told.get("sends"))
    return Plan(strategies, _made_for(path, told.get("made_for")), sends)


def _made_for(path: Path, told: Any) -> MadeFor | None:
    if told is None:
        return None
    types = {"model": str, "world_size": int, "version": str}
    if not isinstance(told, dict) or {k: type(v) for k, v in told.items()} != types:
        raise FileError(f"{path}: made_for must have {', '.join(types)}, or be null. {_WRITE}")
    return MadeFor(**told)


def _sends(path: Path, told: Any) -> Sends | None:
    if told is None:
        return None
    try:
        return msgspec.convert(told, Sends)
    except msgspec.ValidationError as error:
        raise FileError(f"{path}: sends does not fit: {error}. {_WRITE}") from error


def _require_peace(one: Strategy, other: Strategy) -> None:
    if exclude_each_other(type(one), type(other)):
        raise StrategyError(
            f"{one} and {other} cannot stand in one plan. Leave one out; `paceline strategies` "
            "lists what excludes what."
        )


_WRITE = "Write one with `paceline predict RUN --with STRATEGY --save-plan FILE`."
_WORDS = {"model": "the model", "world_size": "a number of workers of", "version": "Paceline"}
