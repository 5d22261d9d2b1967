"""`ParameterArena`: one parameter group's tensors as views into the fused program's memory.

Each parameter is a segment of the flat vector, padded to whole vectors; the padding holds zeros,
which every shipped optimizer leaves zero. Gradients are moved in as autograd finishes them, while
they are still in the cache; until they are averaged, by a step or by request, `.grad` is a
`PartialGradient`. Clipping leaves a factor behind that the step, the average or the next
accumulation applies.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch

from paceline.errors import PacelineError
from paceline.weave.backend import Peers
from paceline.weave.cpu.backend import CpuBackend, CpuExecutable
from paceline.weave.programs import gradient_mean, gradient_norm
from paceline.weave.recipes import UnsupportedOptimizer, recipe_for
from paceline.weave.schedules import fully_fused
from paceline.weave.torch_gradient import PartialGradient

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
        group, size = next(iter(peers.process_groups)), sum(segments)
        step = fully_fused(self._recipe.program(segments, group, self._fixed))
        norm, mean = (fully_fused(make(size, group)) for make in (gradient_norm, gradient_mean))
        self._rank, self._norm, self._mean = peers.rank, norm, mean
        self._executable: CpuExecutable = backend.compile_all(
            (step, norm, mean), peers, backend.tunables(step)[0], {mean.returns[0]: "g"}
        )
        starts = [sum(segments[:i]) for i in range(len(segments))]
        self._weights = self._views("w", starts)
        self._gradients = self._views("g", starts)
        self._partial = [view.as_subclass(PartialGradient) for view in self._gradients]
        self._factor = 1.0  # of every partial gradient: what clipping has found
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
        for at, p in enumerate(self._parameters):
            if p.grad is not None:  # averaged already, by the DDP step that made it
                p.grad = self._gradients[at].copy_(p.grad)
        self.take_state()
        hooks = [
            hook
            for at, p in enumerate(self._parameters)
            for hook in (
                p.register_hook(lambda _: self._apply_factor()),
                p.register_post_accumulate_grad_hook(self._move_in(at)),
            )
        ]
        try:
            yield
            self.average()
        except BaseException:
            self._executable.abandon()
            self._drop_partial()
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
        self._collect()
        scalars = {"lr": float(self._settings["lr"]), "scale": self._factor}
        if self._recipe.counts:
            scalars["t"] = float(self._count())
        self._executable.run(scalars)

    def count(self, parameters: Iterable[torch.Tensor]) -> int:
        """How many of these parameters are in this arena."""
        mine = {id(p) for p in self._parameters}
        return sum(id(p) in mine for p in parameters)

    def pending(self) -> int:
        """How many parameters have a gradient that is still this worker's part."""
        return sum(p.grad is mine for p, mine in zip(self._parameters, self._partial))

    def norm(self) -> float:
        """Of the averaged gradient, by all ranks together."""
        self._collect()
        numbers = self._executable.launch(self._norm.name, {})
        return self._factor * numbers[self._norm.returns[0]]

    def scale(self, factor: float) -> None:
        """Multiply the gradient: nothing moves until it is used."""
        self._factor *= factor

    def average(self) -> None:
        """Give every rank the averaged gradients, by all ranks together; those that are averaged
        already stay."""
        if not self.pending():
            return
        self._executable.launch(self._mean.name, {"scale": self._factor})
        self._factor = 1.0
        for p, mine, view in zip(self._parameters, self._partial, self._gradients):
            p.grad = view if p.grad is mine else p.grad

    def _apply_factor(self) -> None:
        """To this rank's part, before it changes in another way."""
        if self._factor == 1.0:
            return
        for p, mine, view in zip(self._parameters, self._partial, self._gradients):
            if p.grad is mine:
                view.mul_(self._factor)
        self._factor = 1.0

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

    def _collect(self) -> None:
        """Every gradient in the arena, also one that somebody has put in its place."""
        for at, p in enumerate(self._parameters):
            if p.grad is None:
                raise ArenaError(
                    f"parameter {at} of shape {tuple(p.shape)} has no gradient on rank "
                    f"{self._rank}; every trained parameter must take part in every step"
                )
            if p.grad is not self._partial[at] and p.grad is not self._gradients[at]:
                self._apply_factor()
                self._gradients[at].copy_(p.grad)
                p.grad = self._partial[at]

    def _move_in(self, at: int) -> Callable[[torch.Tensor], None]:
        """Put a fresh gradient into the arena; one that accumulates there already stays."""
        view, mine = self._gradients[at], self._partial[at]

        def hook(p: torch.Tensor) -> None:
            if p.grad is None or p.grad is mine:
                return
            if p.grad is not view:
                view.copy_(p.grad)
            p.grad = mine

        return hook

    def _drop_partial(self) -> None:
        """After a failure nobody can average any more."""
        for p, mine in zip(self._parameters, self._partial):
            p.grad = None if p.grad is mine else p.grad

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
