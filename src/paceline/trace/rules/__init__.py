"""Dependency rules: one per file, each `find(view) -> Findings`. To add a rule, add a file here and
a name to RULES; one that needs what the others found goes to SECOND_PASS."""

from collections.abc import Callable
from typing import Final

from paceline.trace.findings import Findings, joined
from paceline.trace.rules import (
    autograd,
    dataflow,
    gradients,
    launch,
    launch_queue,
    recorder,
    stream_sync,
    stream_wait,
    transfers,
)
from paceline.trace.view import RankView

RULES: Final[tuple[Callable[[RankView], Findings], ...]] = (
    launch.find,
    launch_queue.find,
    stream_wait.find,
    stream_sync.find,
    autograd.find,
    transfers.find,
    recorder.find,
    dataflow.find,
)
SECOND_PASS: Final[tuple[Callable[[RankView, Findings], Findings], ...]] = (gradients.find,)


def find_all(view: RankView) -> Findings:
    """All that the rules conclude from one rank."""
    found = joined(rule(view) for rule in RULES)
    return joined([found, *(rule(view, found) for rule in SECOND_PASS)])
