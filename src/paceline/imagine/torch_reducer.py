"""`Reducer`: what DDP's C++ reducer does, in Python, for tensors without data.

Gradients are copied into buckets as they become ready, full buckets are reduced in order, and at
the end of the pass the sums are copied back. After the first pass buckets follow the order in
which gradients became ready (Li et al., PyTorch Distributed, VLDB 2020).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist

from paceline.imagine.imagined import ImagineError


class NoLogger:
    """DDP's logger, silent."""

    def __init__(self, _: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


@dataclass
class ReducedBucket:
    """Gradients that are reduced together; the face that communication hooks see."""

    number: int
    params: list[Any]
    flat: torch.Tensor
    last: bool
    offsets: list[int]  # of each parameter in `flat`; the whole length at the end
    missing: int = 0  # gradients still to come in this pass
    work: Any = None

    def index(self) -> int:
        return self.number

    def buffer(self) -> torch.Tensor:
        return self.flat

    def set_buffer(self, tensor: torch.Tensor) -> None:
        self.flat = tensor

    def is_last(self) -> bool:
        return self.last

    def parameters(self) -> list[Any]:
        return self.params

    def gradients(self) -> list[torch.Tensor]:
        return [self.gradient(at) for at in range(len(self.params))]

    def gradient(self, at: int) -> torch.Tensor:
        """The part of one parameter."""
        first, after = self.offsets[at : at + 2]
        return self.flat[first:after].view(self.params[at].shape)

    def give_back(self) -> None:
        """Copy the reduced sums to the parameters' gradients."""
        for param, part in zip(self.params, self.gradients()):
            if param.grad is not None:
                param.grad.copy_(part)


class Reducer:
    """Takes the place of `torch.distributed.Reducer`."""

    def __init__(
        self,
        params: list[Any],
        bucket_indices: list[list[int]],
        limits: list[int],
        group: Any,
        expect_sparse: Sequence[bool] = (),
        bucket_bytes: int = 0,
        find_unused: bool = False,
        as_view: bool = False,
        names: Any = None,
        first_bytes: int = 0,
        *_: Any,
    ) -> None:
        if any(expect_sparse):
            raise ImagineError(
                "DDP with sparse gradients cannot be imagined; make the embedding dense"
            )
        self._params, self._group, self._as_view = params, group, as_view
        self._caps = [first_bytes, bucket_bytes]
        self._find_unused = find_unused
        self._expecting = self._rebuilt = False
        self._ready: list[int] = []  # parameters in the order of this pass
        self._next = 0  # bucket to reduce next
        self._hook: Callable[[Any], Any] | None = None
        self.buckets: list[ReducedBucket] = []
        self._bucket_of: dict[int, tuple[int, int]] = {}  # parameter -> bucket, place in it
        self._lay_out(bucket_indices)
        self._hooks = [
            param.register_post_accumulate_grad_hook(self._on_ready(index))
            for index, param in enumerate(params)
        ]

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Whatever else DDP tells its reducer is of no consequence here."""
        if not name.startswith(
            ("_set", "set_", "prepare_for_forward", "_push", "_check", "_reset")
        ):
            raise AttributeError(name)
        return lambda *_, **__: None

    @property
    def group_name(self) -> str:
        return str(self._group.group_name)

    def reduces(self, param: Any) -> bool:
        return any(param is mine for mine in self._params)

    def prepare_for_backward(self, outputs: list[torch.Tensor]) -> None:
        self._expecting, self._next, self._ready = True, 0, []
        for bucket in self.buckets:
            bucket.missing, bucket.work = len(bucket.params), None
        if self._find_unused:
            self._skip_unused(outputs)

    def _rebuild_buckets(self) -> bool:
        """Once, after the first complete pass."""
        if self._rebuilt or self._find_unused or len(self._ready) < len(self._params):
            return False
        order = [self._params[index] for index in self._ready]
        found, _ = dist._compute_bucket_assignment_by_size(
            order, self._caps, [False] * len(order), self._ready
        )
        self._rebuilt = True
        self._lay_out(found)
        return True

    def _get_zeros_like_grad_buckets(self) -> list[ReducedBucket]:
        return self.buckets

    def _remove_autograd_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def hook_with(self, state: Any, hook: Callable[[Any, Any], Any]) -> None:
        self._hook = lambda bucket: hook(state, bucket)

    def builtin(self, kind: Any) -> None:
        """torch's two hooks in C++."""
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        half = kind == dist.BuiltinCommHookType.FP16_COMPRESS
        chosen = default_hooks.fp16_compress_hook if half else default_hooks.allreduce_hook
        self.hook_with(self._group, chosen)

    def _lay_out(self, indices: list[list[int]]) -> None:
        self.buckets = []
        for number, members in enumerate(indices):
            params = [self._params[index] for index in members]
            offsets = list(accumulate((param.numel() for param in params), initial=0))
            flat = params[0].new_empty(offsets[-1]).detach()
            last = number == len(indices) - 1
            self.buckets.append(ReducedBucket(number, params, flat, last, offsets))
            self._bucket_of |= {index: (number, at) for at, index in enumerate(members)}

    def _on_ready(self, index: int) -> Callable[[Any], None]:
        def ready(param: Any) -> None:
            if self._expecting:
                with torch.no_grad():
                    self._one_less(self.taken(index, param))

        return ready

    def taken(self, index: int, param: Any) -> ReducedBucket:
        """A gradient goes into its bucket, divided by the number of ranks unless a hook does it."""
        if not self._ready:
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        self._ready.append(index)
        number, at = self._bucket_of[index]
        bucket = self.buckets[number]
        place = bucket.gradient(at)
        if self._hook is None:
            torch.mul(param.grad, 1.0 / self._group.size(), out=place)
        else:
            place.copy_(param.grad)
        if self._as_view:
            param.grad = place
        return bucket

    def _one_less(self, bucket: ReducedBucket) -> None:
        bucket.missing -= 1
        while self._next < len(self.buckets) and self.buckets[self._next].missing <= 0:
            self._reduce(self.buckets[self._next])
            self._next += 1

    def _reduce(self, bucket: ReducedBucket) -> None:
        if self._hook is not None:
            bucket.work = self._hook(bucket)
        else:
            bucket.work = dist.all_reduce(bucket.flat, group=self._group, async_op=True)

    def _finish(self) -> None:
        """Wait for all buckets; give each parameter its reduced gradient."""
        self._expecting = False
        for bucket in self.buckets:
            if bucket.work is None:
                continue
            done = bucket.work.wait()
            if self._hook is not None:
                bucket.flat = done[0] if isinstance(done, list) else done
            if not self._as_view:
                with torch.no_grad():
                    bucket.give_back()

    def _skip_unused(self, outputs: list[torch.Tensor]) -> None:
        """Parameters that no output depends on count as ready at once."""
        used = _reached(outputs)
        for index, param in enumerate(self._params):
            if id(param) not in used:
                self._one_less(self.buckets[self._bucket_of[index][0]])


def _reached(outputs: list[torch.Tensor]) -> set[int]:
    """Ids of the parameters that the autograd graph of the outputs leads to."""
    stack = [out.grad_fn for out in outputs if out.grad_fn is not None]
    seen: set[Any] = set()
    found = set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.add(id(node.variable))
        stack += [following for following, _ in node.next_functions if following is not None]
    return found
