"""Batch norm and the ReLU behind it as one operator of a live model, by the native core.

Forward, one pass over memory finds the moments of each channel and one makes the result, where
torch makes six; backward five take the place of eight. Nothing but the norm's input is kept: what
the ReLU cut off is found again from it, and so is the result that the next layer saves, if asked.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from paceline.engine import native
from paceline.runtime.torch_norm_pairs import RELUS, PairError, holds_tensors, other_way, pairs_in
from paceline.runtime.torch_stash import Form, stashing

_FEW = 2**18  # values below which another thread takes longer to start than to work


@contextmanager
def norms_restructured(model: Any, *, recomputed: bool) -> Iterator[None]:
    """Batch norms together with their ReLUs, until the context is left. Recomputed: their results
    are not kept for the backward pass of what reads them."""
    if native() is None:
        raise PairError(
            "batch norms are restructured by the native core, which was not built here; leave "
            "restructured_norms out of the plan, or take batchnorm_relu"
        )
    made = _Results()

    def mode(turns: frozenset[int]) -> Any:
        return _Together(turns, made)

    with pairs_in(model, mode, _NAME):
        if not recomputed:
            yield
            return
        with stashing(model, made.form):
            yield


@dataclass(frozen=True)
class NormArguments:
    """The arguments of `functional.batch_norm`."""

    input: torch.Tensor
    running_mean: torch.Tensor | None
    running_var: torch.Tensor | None
    weight: torch.Tensor | None = None
    bias: torch.Tensor | None = None
    training: bool = False
    momentum: float = 0.1
    eps: float = 1e-5

    @property
    def fits(self) -> bool:
        """Whether it can be made together with its ReLU: float32 images in host memory."""
        plain = all(
            isinstance(t, torch.Tensor) and t.dtype is torch.float32 and t.device.type == "cpu"
            for t in (self.input, self.weight, self.bias)
        )
        return plain and self.input.dim() > 2 and self.input.is_contiguous() and self.count > 1

    @property
    def count(self) -> int:
        """Values of a channel."""
        return int(self.input.numel() // self.input.shape[1])

    @property
    def of_batch(self) -> bool:
        return self.training or self.running_mean is None or self.running_var is None


@dataclass(frozen=True)
class Norm:
    """What a batch norm does to each channel: x * scale + shift, cut at zero."""

    mean: torch.Tensor
    inverse: torch.Tensor  # of the standard deviation
    scale: torch.Tensor
    shift: torch.Tensor
    of_batch: bool  # the moments are the input's own

    def cut(self, x: torch.Tensor) -> torch.Tensor:
        made = torch.empty_like(x)
        _core().norm_relu(_images(x), _flat(x), _flat(self.scale), _flat(self.shift), _flat(made))
        return made


def _norm(asked: NormArguments) -> Norm:
    """Running moments follow the batch's while training."""
    mean, variance = _moments(asked)
    inverse = (variance + asked.eps).rsqrt_()
    assert asked.weight is not None
    assert asked.bias is not None
    scale = asked.weight * inverse
    return Norm(mean, inverse, scale, asked.bias - mean * scale, asked.of_batch)


def _moments(asked: NormArguments) -> tuple[torch.Tensor, torch.Tensor]:
    running, spread, x = asked.running_mean, asked.running_var, asked.input
    if running is not None and spread is not None and not asked.training:
        return running.clone(), spread
    mean, variance = x.new_empty(x.shape[1]), x.new_empty(x.shape[1])
    _core().channel_moments(_images(x), _flat(x), _flat(mean), _flat(variance))
    if running is not None and spread is not None:
        running.lerp_(mean, asked.momentum)
        spread.lerp_(variance * (asked.count / (asked.count - 1)), asked.momentum)
    return mean, variance


class _NormRelu(torch.autograd.Function):  # type: ignore[misc]
    """Of the input, the weight and the bias, of which the norm was made."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, _: Any, __: Any, norm: Norm) -> torch.Tensor:
        context.save_for_backward(x)
        context.norm = norm
        return norm.cut(x)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: torch.Tensor) -> Any:
        (x,), norm, images = context.saved_tensors, context.norm, _images(context.saved_tensors[0])
        gradient = gradient.contiguous()
        given = (_flat(x), _flat(gradient), _flat(norm.scale), _flat(norm.shift))
        total, product = torch.empty_like(norm.mean), torch.empty_like(norm.mean)
        _core().passing_sums(images, *given, _flat(norm.mean), _flat(total), _flat(product))
        weight = product * norm.inverse
        if not context.needs_input_grad[0]:
            return None, weight, total, None
        slope, offset = torch.zeros_like(total), torch.zeros_like(total)
        if norm.of_batch:
            count = x.numel() // x.shape[1]
            slope = -norm.scale * norm.inverse * weight / count
            offset = -norm.scale * total / count - slope * norm.mean
        plane, back = (_flat(norm.scale), _flat(slope), _flat(offset)), torch.empty_like(x)
        _core().norm_relu_back(images, *given, *plane, _flat(back))
        return back, weight, total, None


class _Together(TorchFunctionMode):  # type: ignore[misc]
    """The same forward, with norms of those turns that bring their ReLU along."""

    def __init__(self, turns: frozenset[int], made: "_Results") -> None:
        super().__init__()
        self._turns, self._turn, self._made = turns, 0, made
        self._cut: list[torch.Tensor] = []  # whose ReLU is still to be called

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in RELUS and self._waits((args[0],)):
            self._cut = [made for made in self._cut if made is not args[0]]
            return args[0]
        if func is functional.batch_norm:
            self._turn += 1
            asked = NormArguments(*args, **(kwargs or {}))
            if self._turn - 1 in self._turns and asked.fits:
                self._cut.append(self._made.of(asked))
                return self._cut[-1]
        result = func(*args, **(kwargs or {}))
        if self._cut and self._waits((args, kwargs)) and holds_tensors(result):
            raise other_way(_NAME)
        return result

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        super().__exit__(kind, error, trace)
        if kind is None and self._cut:
            raise other_way(_NAME)

    def _waits(self, given: Any) -> bool:
        return any(value is made for value in tree_leaves(given) for made in self._cut)


_NAME = "restructured_norms"


class _Results:
    """Results of norms and ReLUs that are alive, each with what it is made of."""

    def __init__(self) -> None:
        self._alive: dict[int, tuple[Any, Recipe]] = {}  # by storage; a weak reference first

    def of(self, asked: NormArguments) -> torch.Tensor:
        with torch.no_grad():
            norm = _norm(asked)
        made: torch.Tensor = _NormRelu.apply(asked.input, asked.weight, asked.bias, norm)
        storage = made.untyped_storage()._cdata
        gone = weakref.ref(made, lambda _: self._alive.pop(storage, None))
        self._alive[storage] = gone, Recipe(asked.input.detach(), norm)
        return made

    def form(self, flat: torch.Tensor) -> Form | None:
        """The recipe of a storage that is saved, where it holds such a result as it was made."""
        found = self._alive.get(flat.untyped_storage()._cdata)
        tensor = found[0]() if found is not None else None
        if found is None or tensor is None or tensor._version:
            return None
        return found[1]


class Recipe:
    """A result that is made again when it is needed."""

    def __init__(self, x: torch.Tensor, norm: Norm) -> None:
        self._x, self._norm = x, norm

    def restored(self) -> torch.Tensor:
        return self._norm.cut(self._x).view(-1)


def _core() -> Any:
    return native()


def _images(x: torch.Tensor) -> Any:
    samples, channels = x.shape[:2]
    threads = torch.get_num_threads() if x.numel() > _FEW else 1
    return _core().Images(samples, channels, x.numel() // (samples * channels), threads)


def _flat(tensor: torch.Tensor) -> Any:
    return tensor.detach().view(-1).numpy()
