"""Gradient clipping inside `fused_step`: the norm is of the averaged gradient, as under DDP.

`torch.nn.utils.clip_grad_norm_` over whole parameter groups takes the norm of all workers' parts in
one pass and leaves the scaling to the fused step. Every other clipping (a part of a group, another
norm, `clip_grad_value_`) is given averaged gradients and then runs as torch wrote it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.utils import clip_grad

from paceline.weave.arena import ParameterArena
from paceline.weave.programs.clip import factor

Clip = Callable[..., Any]


@contextmanager
def clipping_of_averages(arenas: Sequence[ParameterArena]) -> Iterator[None]:
    """torch's clipping functions, as looked up in `torch.nn.utils`, know the arenas' gradients."""
    by_norm, by_value = torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_
    _install(_clip_norm(arenas, by_norm), _averaged_first(arenas, by_value))
    try:
        yield
    finally:
        _install(by_norm, by_value)


def _install(by_norm: Clip, by_value: Clip) -> None:
    for module in (torch.nn.utils, clip_grad):
        module.clip_grad_norm_, module.clip_grad_value_ = by_norm, by_value


def _clip_norm(arenas: Sequence[ParameterArena], original: Clip) -> Clip:
    averaged = _averaged_first(arenas, original)

    def clip_grad_norm_(
        parameters: Any,
        max_norm: float,
        norm_type: float = 2.0,
        error_if_nonfinite: bool = False,
        foreach: bool | None = None,
    ) -> torch.Tensor:
        given = _listed(parameters)
        whole = _whole_groups(arenas, given)
        if not whole or float(norm_type) != 2.0:
            found: torch.Tensor = averaged(given, max_norm, norm_type, error_if_nonfinite, foreach)
            return found
        norm = math.hypot(*(arena.norm() for arena in whole))
        if error_if_nonfinite and not math.isfinite(norm):
            raise RuntimeError(f"the total norm of the gradients is {norm}; it cannot be clipped")
        for arena in whole:
            arena.scale(factor(norm, max_norm))
        return torch.tensor(norm)

    return clip_grad_norm_


def _averaged_first(arenas: Sequence[ParameterArena], original: Clip) -> Clip:
    """The original on averaged gradients; all workers must call it."""

    def clip(parameters: Any, *settings: Any, **named: Any) -> Any:
        given = _listed(parameters)
        for arena in arenas:
            if arena.count(given):
                arena.average()
        return original(given, *settings, **named)

    return clip


def _listed(parameters: torch.Tensor | Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)


def _whole_groups(
    arenas: Sequence[ParameterArena], given: list[torch.Tensor]
) -> list[ParameterArena]:
    """The arenas whose parameters, all of them still to be averaged, are exactly those given."""
    counts = {arena: arena.count(given) for arena in arenas}
    met = [arena for arena, count in counts.items() if count]
    trained = [p for p in given if p.requires_grad]
    fits = sum(counts.values()) == len(trained) and all(counts[a] == a.pending() for a in met)
    return met if fits else []
