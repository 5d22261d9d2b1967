"""Substitutions of operators in a live model: most change pairs of layers of an `nn.Sequential`.

What a sequence passes between two of its layers nobody else reads, unless a hook does: layers with
hooks are left alone, and so are those that the model uses in several places.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from paceline.errors import PacelineError
from paceline.runtime.run import Run
from paceline.runtime.torch_merged_products import mergeable, products_merged

MERGE = "merge_products"
_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_KEEPS_NO_OUTPUT = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *_NORMS, *_POOLS)
"""Layers whose backward pass does not need what they gave out."""


class SubstitutionError(PacelineError):
    """No operators of this model can be substituted as asked."""


@contextmanager
def substituted(run: Run, rules: tuple[str, ...]) -> Iterator[None]:
    """The rules of those names in force wherever they hold, until the context is left."""
    with ExitStack() as stack:
        made = [
            stack.enter_context(CHANGES[rule](sequence, at))
            for rule in rules
            if rule in FITS
            for sequence, at in _pairs(run.model)
            if FITS[rule](sequence[at], sequence[at + 1])
        ]
        merges = MERGE in rules and bool(mergeable(run.model))
        if merges:
            stack.enter_context(products_merged(run.model))
        if not made and not merges:
            raise SubstitutionError(
                f"none of the rules {', '.join(rules)} holds in this model: they look for pairs of "
                "layers side by side in an nn.Sequential, each used once and without hooks, or for "
                "linear layers of one module that read one input"
            )
        yield


def _pairs(model: nn.Module) -> Iterator[tuple[nn.Sequential, int]]:
    """Neighbours in plain sequences."""
    used = Counter(id(m) for _, m in model.named_modules(remove_duplicate=False))
    for sequence in model.modules():
        if type(sequence) is nn.Sequential:
            for at in range(len(sequence) - 1):
                if all(used[id(m)] == 1 and not _hooked(m) for m in sequence[at : at + 2]):
                    yield sequence, at


def _hooked(module: nn.Module) -> bool:
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, name) for name in hooks)


def _may_overwrite(first: nn.Module, second: nn.Module) -> bool:
    return type(first) in _KEEPS_NO_OUTPUT and type(second) is nn.ReLU and not second.inplace


def _may_pool_first(first: nn.Module, second: nn.Module) -> bool:
    """The largest of what is cut at zero is what is largest, cut at zero."""
    return type(first) is nn.ReLU and type(second) in _POOLS


@contextmanager
def _overwriting(sequence: nn.Sequential, at: int) -> Iterator[bool]:
    relu: Any = sequence[at + 1]
    relu.inplace = True
    try:
        yield True
    finally:
        relu.inplace = False


@contextmanager
def _pooling_first(sequence: nn.Sequential, at: int) -> Iterator[bool]:
    first, second = sequence[at], sequence[at + 1]
    sequence[at], sequence[at + 1] = second, first
    try:
        yield True
    finally:
        sequence[at], sequence[at + 1] = first, second


Change = Callable[[nn.Sequential, int], Any]

FITS: dict[str, Callable[[nn.Module, nn.Module], bool]] = {
    "relu_in_place": _may_overwrite,
    "pool_before_relu": _may_pool_first,
}
CHANGES: dict[str, Change] = {
    "relu_in_place": _overwriting,
    "pool_before_relu": _pooling_first,
}
