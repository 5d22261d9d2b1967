"""The operator calls of a recorded job, with the shapes that its detail step tells."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.cost.operators import OPERATORS
from paceline.measure.errors import MeasureError
from paceline.record import sidecar

Dims = tuple[int, ...]


_CATEGORIES = ("cpu_op", "user_annotation")
_NOT_THE_MODEL = ("Optimizer.", "torch::distributed::reducer")


@dataclass(frozen=True)
class OperatorCall:
    """One call as the profiler describes it: for each argument its type, sizes, strides and, of
    what is no tensor, its value as text."""

    operator: str  # aten::addmm
    types: tuple[str, ...]
    dims: tuple[Dims, ...]
    strides: tuple[Dims, ...]
    values: tuple[str, ...]
    backward: bool = False


@dataclass(frozen=True)
class RecordedCalls:
    """What a measurement needs of a recording."""

    calls: tuple[OperatorCall, ...]  # of one step, in order
    threads: int
    optimizer: sidecar.Optimizer | None
    parameter_sizes: tuple[int, ...]  # elements

    def counted(self) -> Counter[OperatorCall]:
        return Counter(self.calls)


def recorded_calls(folder: Path) -> RecordedCalls:
    """What the first rank's recording tells; an error where it has no detail step."""
    found = sorted(folder.glob("rank-*.detail.json"))
    if not found:
        raise MeasureError(
            f"{folder} has no rank-*.detail.json, which tells the shapes of the job's operators; "
            f"record the job with `paceline record -o {folder} -- COMMAND`"
        )
    rank = int(found[0].name.split(".")[0].split("-")[1])
    told = sidecar.read(folder / sidecar.facts_name(rank))
    host, optimizer = told.of(sidecar.RecordedHost)[0], told.of(sidecar.Optimizer)
    events = json.loads(found[0].read_bytes())["traceEvents"]
    return RecordedCalls(
        calls=tuple(_calls(events)),
        threads=max(1, host.threads),
        optimizer=optimizer[0] if optimizer else None,
        parameter_sizes=tuple(p.elements for p in told.of(sidecar.Parameter)),
    )


def _calls(events: Iterable[dict[str, Any]]) -> Iterator[OperatorCall]:
    """Forward's and backward's calls that do the work themselves, in order; what one of them calls
    is part of it."""
    timed = [e for e in events if e.get("ph") == "X" and e.get("cat") in _CATEGORIES]
    timed.sort(key=lambda e: (e["tid"], e["ts"], -e["dur"]))
    thread, until, backward_until = None, -1.0, -1.0
    for event in timed:
        if event["tid"] != thread:
            thread, until, backward_until = event["tid"], -1.0, -1.0
        end = event["ts"] + event["dur"]
        if event["name"].startswith("autograd::engine::evaluate_function"):
            backward_until = max(backward_until, end)
        if event["name"].startswith(_NOT_THE_MODEL):
            until = max(until, end)
        elif event["name"] in OPERATORS and event["ts"] >= until:
            until = end
            yield _call(event, backward=event["ts"] < backward_until)


def _call(event: dict[str, Any], *, backward: bool) -> OperatorCall:
    told = event.get("args", {})
    return OperatorCall(
        operator=event["name"],
        types=tuple(told.get("Input type", ())),
        dims=tuple(map(_dims, told.get("Input Dims", ()))),
        strides=tuple(map(_dims, told.get("Input Strides", ()))),
        values=tuple(told.get("Concrete Inputs", ())),
        backward=backward,
    )


def _dims(told: Any) -> Dims:
    return tuple(d for d in told if isinstance(d, int))
