"""One stage's arithmetic: forward and backward of a micro-batch on the weights of its version.

What the backward pass needs is kept in a stash by micro-batch: everything, or with recomputation
the input alone (and the state of the random numbers, so that dropout falls the same way twice).
A backward pass may be taken in two halves: the gradient of the input now, those of weights later.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

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

    leaves: Leaves | None  # none: the module's own parameters
    given: Tensor
    target: Tensor | None
    made: Tensor | None  # none where it is computed again
    random: Tensor | None


class Stage:
    """Forward and backward passes, and the stash between them."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._stash: dict[int, _Kept] = {}
        self._left: dict[int, Callable[[], object]] = {}  # gradients of weights, to be made

    def forward(
        self,
        microbatch: int,
        given: Tensor,
        leaves: Leaves | None = None,
        target: Tensor | None = None,
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

    def backward_input(self, microbatch: int, gradient: Tensor) -> Tensor | None:
        """The gradient of the stage's input; those of weights are left for `backward_weight`. What
        has no gradient to pass on leaves all of it."""
        from torch.distributed.pipelining._backward import (
            stage_backward_input,
            stage_backward_weight,
        )

        kept = self._stash.pop(microbatch)
        assert kept.made is not None, "a pass that is computed again goes back as a whole"
        weights = self._weights(kept)
        if not kept.given.requires_grad:
            self._left[microbatch] = partial(torch.autograd.backward, kept.made, gradient)
            return None
        with torch.enable_grad():  # torch looks for nodes of weights by a view of them
            made = kept.made.clone() if kept.made._is_view() else kept.made  # it detaches in place
            (passed,), groups = stage_backward_input(
                [made], [gradient], [kept.given], iter(weights)
            )
        self._left[microbatch] = partial(stage_backward_weight, iter(weights), groups)
        found: Tensor | None = passed
        return found

    def backward_weight(self, microbatch: int) -> None:
        """Adds to the gradients of the leaves what `backward_input` left."""
        with torch.enable_grad():
            self._left.pop(microbatch)()

    def forget(self, microbatch: int) -> None:
        """Nobody goes back through it."""
        self._stash.pop(microbatch, None)

    def _weights(self, kept: _Kept) -> list[Tensor]:
        held = self._piece.module.parameters() if kept.leaves is None else kept.leaves.values()
        return [weight for weight in held if weight.requires_grad]

    def _again(self, kept: _Kept) -> Tensor:
        assert kept.random is not None
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(kept.random)
            return self._compute(kept.given, kept.leaves, kept.target)

    def _compute(self, given: Tensor, leaves: Leaves | None, target: Tensor | None) -> Tensor:
        module = self._piece.module
        made: Tensor = module(given) if leaves is None else functional_call(module, leaves, given)
        return made if self._piece.loss is None else self._piece.loss(made, _present(target))


def _present(target: Tensor | None) -> Tensor:
    assert target is not None, "the last stage needs targets"
    return target
