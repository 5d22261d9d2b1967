"""Buckets that travel as they are: DDP's own exchange, in C++ without a hook, and what it sends.

A hook in Python takes a core and the interpreter for every bucket, beside the backward pass. Here
one call a step counts: behind the gradient of a parameter that every step has.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from paceline.runtime.codecs import Sharing
from paceline.runtime.codecs.torch_communicate import counted
from paceline.runtime.exchange import Exchange, Sent

_SETTLED = 2  # steps: behind the first DDP lays its buckets in the order that it saw


def travels_as_it_is(asked: Exchange, replica: Any) -> bool:
    """Whether a plan changes nothing but the buckets of what DDP reduces. Where steps leave
    parameters out, or come back to them in one backward pass, no parameter tells a step from
    another; what is sparse has another length in each."""
    _, sparse = replica._build_params_for_reducer()
    irregular = replica.find_unused_parameters or replica.static_graph or any(sparse)
    return asked == Exchange(asked.buckets, pairs=asked.pairs) and not irregular


@contextmanager
def counting(replica: Any, sent: Sent) -> Iterator[None]:
    """Counts every reduction of this replica's gradients."""
    count = _Count(replica, sent)
    parameters, _ = replica._build_params_for_reducer()
    hook = parameters[0].register_post_accumulate_grad_hook(count)
    try:
        yield
    finally:
        hook.remove()


class _Count:
    def __init__(self, replica: Any, sent: Sent) -> None:
        self._replica, self._sent = replica, sent
        self._steps, self._calls = 0, list[tuple[int, int]]()

    def __call__(self, _: Any) -> None:
        if not self._replica.require_backward_grad_sync:
            return
        if self._steps < _SETTLED:
            self._calls = self._told()
        self._steps += 1
        for size_bytes, wire_bytes in self._calls:
            self._sent.call(size_bytes, wire_bytes)
        self._sent.stepped()

    def _told(self) -> list[tuple[int, int]]:
        buckets = self._replica.reducer._get_zeros_like_grad_buckets()
        group = self._replica.process_group
        return [counted(Sharing.SUM, bucket.buffer(), group) for bucket in buckets]
