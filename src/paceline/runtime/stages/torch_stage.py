"""One stage's arithmetic: forward and backward of a micro-batch on the weights of its version.

What the backward pass needs is kept in a stash by micro-batch: everything, or with recomputation
the input alone (and the state of the random numbers, so that dropout falls the same way twice).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from paceline.runtime.stages.torch_versions import Leaves

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Piece:
    """A stage's part of the model. The last stage has the loss; `share` is 1 / micro-batches."""

    module: nn.Module
    loss: Loss | None = None
    share: float = 1.0
    recompute: bool = False


@dataclass(frozen=True)
class _Kept:
    """What one micro-batch's backward pass needs."""

    leaves: Leaves
    given: Tensor
    target: Tensor | None
    made: Tensor | None  # none where it is computed again
    random: Tensor | None


class Stage:
    """Forward and backward passes, and the stash between them."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._stash: dict[int, _Kept] = {}

    def forward(
        self, microbatch: int, given: Tensor, leaves: Leaves, target: Tensor | None = None
    ) -> Tensor:
        """The stage's output (on the last stage: the loss of the micro-batch), without history."""
        if self._piece.recompute:
            random = torch.get_rng_state()
            with torch.no_grad():
                made = self._compute(given, leaves, target)
            self._stash[microbatch] = _Kept(leaves, given, target, None, random)
            return made
        made = self._compute(given, leaves, target)
        self._stash[microbatch] = _Kept(leaves, given, target, made, None)
        return made.detach()

    def backward(self, microbatch: int, gradient: Tensor | None) -> Tensor | None:
        """Adds to the gradients of the leaves; returns the gradient of the stage's input."""
        kept = self._stash.pop(microbatch)
        made = kept.made if kept.made is not None else self._again(kept)
        if gradient is None:
            gradient = torch.full_like(made, self._piece.share)
        torch.autograd.backward(made, gradient)
        return kept.given.grad

    def _again(self, kept: _Kept) -> Tensor:
        assert kept.random is not None
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(kept.random)
            return self._compute(kept.given, kept.leaves, kept.target)

    def _compute(self, given: Tensor, leaves: Leaves, target: Tensor | None) -> Tensor:
        made: Tensor = functional_call(self._piece.module, leaves, (given,))
        return made if self._piece.loss is None else self._piece.loss(made, _present(target))


def _present(target: Tensor | None) -> Tensor:
    assert target is not None, "the last stage needs targets"
    return target
