"""Install in a live DDP job what the strategies said of its exchange, and take it out again.

DDP's reducer is built anew with other bucket sizes, by DDP's own code, and every bucket goes
through one hook, which compresses, remembers, communicates and counts.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

import torch
import torch.distributed as dist

from paceline.runtime.codecs import Codec, Turn
from paceline.runtime.codecs.torch_casts import plain
from paceline.runtime.codecs.torch_communicate import share
from paceline.runtime.codecs.torch_memory import ErrorFeedback
from paceline.runtime.exchange import BucketSizes, ExchangeError, Sent
from paceline.runtime.run import Run


@contextmanager
def installed(run: Run) -> Iterator[Sent]:
    """The exchange that the run's strategies asked for, until the context is left."""
    asked, sent = run.exchange, Sent()
    if not run.replicas and (asked.buckets or asked.codec):
        raise ExchangeError(
            "this job has no DistributedDataParallel module, whose exchange the plan would change; "
            "wrap the model in DDP, or leave buckets and codecs out of the plan"
        )
    for replica in run.replicas:
        _require_free(replica)
        if asked.codec is not None:
            _require_float32(replica)
    with ExitStack() as stack:
        for replica in run.replicas:
            hook = Hook(asked.codec or plain(), replica.process_group, sent)
            stack.enter_context(_with_reducer(replica, asked.buckets, hook))
        yield sent


class Hook:
    """DDP's communication hook: one bucket's gradients become their mean over all ranks."""

    def __init__(self, codec: Codec, group: Any, sent: Sent) -> None:
        self._codec, self._group, self._sent = codec, group, sent
        self._share = 1.0 / dist.get_world_size(group)
        self._memory = ErrorFeedback() if codec.feedback else None
        self._turns: dict[int, int] = {}  # by bucket

    def __call__(self, _: None, bucket: Any) -> Any:
        started = perf_counter_ns()
        how, gradient, turn = self._codec.compressor, bucket.buffer(), self._turn(bucket.index())
        payload = self._payload(gradient.mul_(self._share), bucket, turn)
        self._sent.coded(perf_counter_ns() - started)
        under = share(self._codec.sharing, payload, self._group)
        self._sent.call(under.size_bytes, under.wire_bytes)
        if bucket.is_last():
            self._sent.stepped()

        def unpack(done: Any) -> Any:
            done.value()  # raises where the collective failed
            began = perf_counter_ns()
            first, *others = under.payloads
            how.restore(gradient, first, turn)
            for other in others:
                how.add(gradient, other, turn)
            self._sent.coded(perf_counter_ns() - began)
            return gradient

        return under.future.then(unpack)

    def _payload(self, gradient: torch.Tensor, bucket: Any, turn: Turn) -> torch.Tensor:
        how = self._codec.compressor
        if self._memory is None:
            return how.compress(gradient, turn)
        key = tuple(id(parameter) for parameter in bucket.parameters())
        corrected = self._memory.corrected(key, gradient)
        payload = how.compress(corrected, turn)
        self._memory.sent(corrected, payload, how, turn)
        return payload

    def _turn(self, bucket: int) -> Turn:
        step = self._turns.get(bucket, 0)
        self._turns[bucket] = step + 1
        return Turn(bucket, step)


def _require_free(replica: Any) -> None:
    """Jobs whose exchange is already changed are left alone."""
    taken = {
        "a communication hook of its own": bool(replica._comm_hooks),
        "DDP's mixed precision": replica.mixed_precision is not None,
        "DDP's Python reducer": getattr(replica, "_use_python_reducer", False),
        "parameters whose all-reduce is delayed": bool(
            getattr(replica, "_delay_all_reduce_params", None)
        ),
    }
    found = [what for what, there in taken.items() if there]
    if found:
        raise ExchangeError(
            f"the job has {found[0]}, and a plan cannot change the exchange beside it; "
            "take it out of the training script first"
        )


def _require_float32(replica: Any) -> None:
    found = {p.dtype for p in replica.parameters() if p.requires_grad} - {torch.float32}
    if found:
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in found))
        raise ExchangeError(
            f"codecs pack float32 gradients, and this job has {names}; leave it out"
        )


@contextmanager
def _with_reducer(replica: Any, sizes: BucketSizes | None, hook: Hook) -> Iterator[None]:
    before = _sizes(replica)
    try:
        _rebuild(replica, before if sizes is None else _changed(before, sizes))
        dist._register_comm_hook(replica.reducer, None, hook.__call__)
        yield
    finally:
        _rebuild(replica, before)


def rebuilt(replica: Any) -> None:
    """DDP's reducer made anew, for the parameters that its module has now."""
    _rebuild(replica, _sizes(replica))


def _sizes(replica: Any) -> Any:
    """DDP's own note of its bucket sizes; None in a torch that keeps none."""
    return getattr(replica, "_bucket_config", None)


def _changed(config: Any, sizes: BucketSizes) -> Any:
    if config is None:
        raise ExchangeError(
            f"torch {torch.__version__} does not let the bucket sizes of a live DDP be changed; "
            "take torch 2.13, or set bucket_cap_mb in the script"
        )
    return replace(
        config,
        bucket_bytes_cap=sizes.size_bytes,
        per_bucket_bytes_caps=(),
        first_bucket_bytes_cap=sizes.first_size_bytes or sizes.size_bytes,
    )


def _rebuild(replica: Any, config: Any) -> None:
    """As DDP builds its reducer when it is unpickled. Ranks need not talk for it."""
    replica.reducer._remove_autograd_hooks()
    if config is not None:
        replica._bucket_config = config
        replica.bucket_bytes_cap = config.bucket_bytes_cap
    parameters, sparse = replica._build_params_for_reducer()
    names = replica._build_debug_param_to_name_mapping(parameters)
    replica._ddp_init_helper(parameters, sparse, names, replica.static_graph)
    if replica.static_graph:
        replica.reducer._set_static_graph()
        replica.logger._set_static_graph()
