"""The job's own optimizer on parameters of its sizes, as recorded and fused."""

from collections.abc import Iterator
from typing import Any

import torch

from paceline.graph.variants import Ratio, Variant
from paceline.measure.pairs import clock_of, ratio_of, timed
from paceline.measure.recorded_calls import RecordedCalls

_FUSED = ("SGD", "Adam", "AdamW", "Adagrad")
_IMPLEMENTATIONS = ("fused", "foreach")


def optimizer_ratios(recorded: RecordedCalls) -> Iterator[Ratio]:
    """None where torch has no fused one, or the job's is."""
    told = recorded.optimizer
    if told is None or told.kind not in _FUSED or told.settings.get("fused"):
        return
    settings = {n: tuple(v) if isinstance(v, list) else v for n, v in told.settings.items()}
    plain = _optimizer(recorded, settings)
    changed = _optimizer(recorded, {**settings, "fused": True, "foreach": False})
    pair = timed(plain.step, changed.step, clock_of(recorded.threads))
    yield ratio_of(told.kind, Variant.FUSED, [pair])


def _optimizer(recorded: RecordedCalls, settings: dict[str, Any]) -> torch.optim.Optimizer:
    assert recorded.optimizer is not None
    parameters = [torch.nn.Parameter(torch.rand(size)) for size in recorded.parameter_sizes]
    for parameter in parameters:
        parameter.grad = torch.rand_like(parameter) * 1e-3
    made = getattr(torch.optim, recorded.optimizer.kind)(parameters, lr=1e-4)
    for group in made.param_groups:
        group.update({name: value for name, value in settings.items() if name in group})
    return made
