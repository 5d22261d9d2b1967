"""Dependency rules: one a file, each `find(view) -> Findings`. Adding a rule is adding a file here
and a name to RULES."""

from collections.abc import Callable
from typing import Final

from paceline.record.findings import Findings, joined
from paceline.record.rules import autograd, launch, recorder, stream_sync, stream_wait, transfers
from paceline.record.view import RankView

RULES: Final[tuple[Callable[[RankView], Findings], ...]] = (
    launch.find,
    stream_wait.find,
    stream_sync.find,
    autograd.find,
    transfers.find,
    recorder.find,
)


def find_all(view: RankView) -> Findings:
    """All that the rules conclude from one rank."""
    return joined(rule(view) for rule in RULES)
