"""`ParameterArena`: one parameter group's tensors as views into the fused program's memory.

Each parameter is a segment of the flat vector, padded to whole vectors; the padding holds zeros,
which every shipped optimizer leaves zero. Gradients are moved in as autograd finishes them, while
they are still in the cache.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from paceline.errors import PacelineError
from paceline.weave.backend import Peers
from paceline.weave.cpu.backend import CpuBackend, CpuExecutable
from paceline.weave.program import Program
from paceline.weave.recipes import UnsupportedOptimizer, recipe_for
from paceline.weave.schedules import fully_fused

_ALIGN = 16  # elements: a vector


class ArenaError(PacelineError):
    """A parameter or gradient is not where the fused step put it."""


class ParameterArena:
    """The parameters of one group, their gradients and state, and the program that steps them."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, index: int, backend: CpuBackend, peers: Peers
    ) -> None:
        self._optimizer, self._settings = optimizer, optimizer.param_groups[index]
        self._recipe = recipe_for(optimizer)
        self._fixed = self._recipe.settings_of(self._settings)
        self._parameters = [p for p in self._settings["params"] if p.requires_grad]
        for p in self._parameters:
            _require_plain(p)
        segments = tuple(_padded(p.numel()) for p in self._parameters)
        self.program: Program = fully_fused(
            self._recipe.program(segments, next(iter(peers.process_groups)), self._fixed)
        )
        self._rank = peers.rank
        self._executable: CpuExecutable = backend.compile(
            self.program, peers, backend.tunables(self.program)[0]
        )
        starts = [sum(segments[:i]) for i in range(len(segments))]
        self._weights = self._views("w", starts)
        self._gradients = self._views("g", starts)
        self._state = {
            key: self._views(name, starts)
            for name, key in self._recipe.state(self._settings).items()
        }

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Move everything in; on the way out give it back, whole where nothing failed."""
        for p, view in zip(self._parameters, self._weights):
            view.copy_(p.data)
            p.data = view
        for p, view in zip(self._parameters, self._gradients):
            if p.grad is not None:
                p.grad = view.copy_(p.grad)
        self.take_state()
        hooks = [
            p.register_post_accumulate_grad_hook(_move_into(view))
            for p, view in zip(self._parameters, self._gradients)
        ]
        try:
            yield
        except BaseException:
            self._executable.abandon()
            raise
        finally:
            for hook in hooks:
                hook.remove()
            self._give_back()
            self._executable.close()

    def take_state(self) -> None:
        """State tensors become views into the arena with the values they have."""
        for at, p in enumerate(self._parameters):
            state = self._optimizer.state[p]
            if self._recipe.counts and "step" not in state:
                state["step"] = torch.tensor(0.0)
            for key, views in self._state.items():
                if state.get(key) is None:
                    views[at].zero_()
                else:
                    views[at].copy_(state[key])
                state[key] = views[at]

    def step(self) -> None:
        """One fused step, by all ranks together."""
        self._check()
        scalars = {"lr": float(self._settings["lr"])}
        if self._recipe.counts:
            scalars["t"] = float(self._count())
        self._executable.run(scalars)

    def _count(self) -> float:
        """Advance the parameters' step counts, which must agree: one number serves them all."""
        counts = [self._optimizer.state[p]["step"] for p in self._parameters]
        steps = {float(c) for c in counts}
        if len(steps) > 1:
            raise ArenaError(
                f"parameters of one group have taken {sorted(steps)} steps; the fused step needs "
                "them equal. Put late starters into a parameter group of their own"
            )
        for count in counts:
            count += 1
        return steps.pop() + 1

    def _check(self) -> None:
        """Refuse to step on tensors that somebody has put elsewhere."""
        now = self._recipe.settings_of(self._settings)
        if now != self._fixed:
            raise UnsupportedOptimizer(
                f"optimizer settings changed from {self._fixed} to {now} inside fused_step; "
                "only the learning rate may change (OneCycleLR: cycle_momentum=False)"
            )
        for at, p in enumerate(self._parameters):
            if p.data_ptr() != self._weights[at].data_ptr():
                raise ArenaError(
                    f"parameter {at} of shape {tuple(p.shape)} was rebound inside fused_step; "
                    "change values in place (p.data.copy_), or rebind outside the context"
                )
            if p.grad is None:
                raise ArenaError(
                    f"parameter {at} of shape {tuple(p.shape)} has no gradient on rank "
                    f"{self._rank}; every trained parameter must take part in every step"
                )
            if p.grad.data_ptr() != self._gradients[at].data_ptr():
                p.grad = self._gradients[at].copy_(p.grad)

    def _give_back(self) -> None:
        """Ordinary tensors again, with the last values."""
        for at, p in enumerate(self._parameters):
            if p.data_ptr() == self._weights[at].data_ptr():
                p.data = p.data.clone(memory_format=torch.preserve_format)
            if p.grad is not None and p.grad.data_ptr() == self._gradients[at].data_ptr():
                p.grad = p.grad.clone(memory_format=torch.preserve_format)
            state = self._optimizer.state[p]
            for key, views in self._state.items():
                if key in state and state[key].data_ptr() == views[at].data_ptr():
                    state[key] = state[key].clone(memory_format=torch.preserve_format)

    def _views(self, name: str, starts: list[int]) -> list[torch.Tensor]:
        flat = self._executable.whole(name)
        return [
            torch.as_strided(flat, p.size(), p.stride(), start)
            for p, start in zip(self._parameters, starts)
        ]


def _move_into(view: torch.Tensor) -> Any:
    """Put a fresh gradient into the arena; one that accumulates there already stays."""

    def hook(p: torch.Tensor) -> None:
        if p.grad is not None and p.grad.data_ptr() != view.data_ptr():
            p.grad = view.copy_(p.grad)

    return hook


def _padded(count: int) -> int:
    return -(-max(count, 1) // _ALIGN) * _ALIGN


def _require_plain(p: torch.Tensor) -> None:
    """Float32 on the CPU, dense in memory whatever its stride order."""
    if p.dtype is not torch.float32 or p.device.type != "cpu":
        raise UnsupportedOptimizer(
            f"a parameter is {p.dtype} on {p.device}; the fused step serves float32 on the CPU"
        )
    extent = 1 + sum((n - 1) * s for n, s in zip(p.size(), p.stride()))
    if p.numel() and extent != p.numel():
        raise UnsupportedOptimizer(
            f"a parameter of shape {tuple(p.shape)} has gaps in memory (strides {p.stride()}); "
            "make it contiguous first"
        )
