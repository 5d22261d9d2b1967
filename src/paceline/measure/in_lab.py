"""Commands that measure in a lab, and the line of JSON that their first worker writes."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from paceline.cluster import Cluster
from paceline.measure.errors import MeasureError

InLab = Callable[[Cluster, Sequence[str]], str]
"""Runs a command on every worker of a cluster in a lab; what the first worker writes."""


def answer(said: str, first: str) -> Any:
    """The object whose first name is `first`; gloo may have written other lines."""
    lines = [line for line in said.splitlines() if line.startswith(f'{{"{first}"')]
    if not lines:
        raise MeasureError(
            f"the workers in the lab ended without a figure; they said: {said.strip()[-300:]}"
        )
    return json.loads(lines[-1])
