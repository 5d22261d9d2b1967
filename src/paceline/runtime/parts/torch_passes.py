"""`LonePasses`: which passes of a model one rank may make alone.

Under DDP one rank may evaluate a model while the others wait, and nobody sends anything. So where
no gradients will follow a pass, what the others keep is asked for instead (`torch_lone`).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch


class LonePasses:
    """Of one model; told by how its outermost pass began."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.within = False
        self.alone = False  # the pass under way

    @contextmanager
    def watched(self) -> Iterator[None]:
        with ExitStack() as stack:
            begin = self._model.register_forward_pre_hook(self._begin, prepend=True)
            stack.callback(begin.remove)
            end = self._model.register_forward_hook(self._end, always_call=True)
            stack.callback(end.remove)
            yield

    def may_be_alone(self) -> bool:
        """Whether a pass that began now would have no gradients behind it."""
        return not (torch.is_grad_enabled() and self._model.training)

    def _begin(self, *_: Any) -> None:
        self.within, self.alone = True, self.may_be_alone()

    def _end(self, *_: Any) -> None:
        self.within = self.alone = False
