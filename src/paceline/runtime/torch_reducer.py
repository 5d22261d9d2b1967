"""DDP's reducer made anew in a live job, by DDP's own code: with other buckets, and with a hook.

A reducer takes one communication hook and never gives it back, so that each plan has its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from paceline.runtime.exchange import READY, Bucketing, ExchangeError, arranged
from paceline.runtime.run import Run
from paceline.runtime.torch_forward import forward_as

Answer = Callable[[None, Any], Any]
"""DDP's communication hook: what becomes of one bucket's gradients."""


@contextmanager
def with_reducer(replica: Any, run: Run, hook: Answer | None = None) -> Iterator[None]:
    """With the run's buckets, and DDP's own exchange where no hook is given."""
    before, asked = _sizes(replica), run.exchange.buckets
    try:
        _rebuild(replica, before if asked is None else _changed(before, asked))
        if asked is not None and asked.order != READY:
            _arrange(replica, asked.order, run.names)
        if hook is not None:
            dist._register_comm_hook(replica.reducer, None, hook)
        yield
    finally:
        _rebuild(replica, before)


@contextmanager
def without_reducer(replica: Any) -> Iterator[None]:
    """A replica that reduces nothing, and holds no tensor for it."""
    before = _sizes(replica)
    _remove(replica)
    try:
        with forward_as(replica, lambda _: _passing(replica)):
            yield
    finally:
        _make(replica, before)


def _passing(replica: Any) -> Callable[..., Any]:
    """DDP's forward without its reducer: buffers are kept equal as before."""

    def forward(*given: Any, **named: Any) -> Any:
        if replica._check_sync_bufs_pre_fwd():
            replica._sync_buffers()
        result = replica.module(*given, **named)
        reduces = torch.is_grad_enabled() and replica.require_backward_grad_sync
        replica.require_forward_param_sync = reduces
        return result

    return forward


@contextmanager
def ignoring(replica: Any, parameters: Sequence[Any]) -> Iterator[None]:
    """Reducers that are made meanwhile leave these parameters out."""
    gone, before = {id(parameter) for parameter in parameters}, replica.parameters_to_ignore
    names = {
        f"{path}.{name}"
        for path, module in replica.module.named_modules()
        for name, parameter in module.named_parameters(recurse=False)
        if id(parameter) in gone
    }
    replica.parameters_to_ignore = before | names
    try:
        yield
    finally:
        replica.parameters_to_ignore = before
        rebuilt(replica)


def reduces(replica: Any) -> bool:
    """Whether a reducer made now would have anything to reduce."""
    parameters, _ = replica._build_params_for_reducer()
    return bool(parameters)


def rebuilt(replica: Any) -> None:
    """DDP's reducer made anew, for the parameters that its module has now."""
    _rebuild(replica, _sizes(replica))


def first_bucket_bytes(replica: Any) -> int:
    """At how many bytes of gradients its first bucket is closed."""
    config = _sizes(replica)
    if config is None:
        return int(dist._DEFAULT_FIRST_BUCKET_BYTES)
    return int(min(config.first_bucket_bytes_cap, config.bucket_bytes_cap))


def _sizes(replica: Any) -> Any:
    """DDP's own note of its bucket sizes; None in a torch that keeps none."""
    return getattr(replica, "_bucket_config", None)


def _changed(config: Any, sizes: Bucketing) -> Any:
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


def _arrange(replica: Any, order: str, names: Mapping[int, str]) -> None:
    """Buckets in that order, now: DDP else puts them in the order that its first backward shows,
    as it does here with an order that is told. All ranks must come here together."""
    parameters, _ = replica._build_params_for_reducer()
    told = [names.get(id(p), "a parameter without a recorded name") for p in parameters]
    _rebuild(replica, _sizes(replica), arranged(range(len(parameters)), told, order))
    replica.reducer._push_all_rebuilt_params()
    if not replica.reducer._rebuild_buckets():
        raise ExchangeError(
            "DDP's buckets have a fixed order where find_unused_parameters is set; leave the order "
            "of buckets out of the plan"
        )


def _rebuild(replica: Any, config: Any, order: Sequence[int] | None = None) -> None:
    _remove(replica)
    _make(replica, config, order)


def _remove(replica: Any) -> None:
    if replica.reducer is not None:
        replica.reducer._remove_autograd_hooks()
    replica.reducer = replica.logger = None


def _make(replica: Any, config: Any, order: Sequence[int] | None = None) -> None:
    """As DDP builds its reducer when it is unpickled. Ranks need not talk for it. A replica whose
    parameters are all left out gets none."""
    if config is not None:
        replica._bucket_config = config
        replica.bucket_bytes_cap = config.bucket_bytes_cap
    parameters, sparse = replica._build_params_for_reducer()
    if not parameters:
        return
    if order is not None:
        parameters, sparse = [parameters[at] for at in order], [sparse[at] for at in order]
    names = replica._build_debug_param_to_name_mapping(parameters)
    replica._ddp_init_helper(parameters, sparse, names, replica.static_graph)
    if replica.static_graph:
        replica._static_graph_delay_allreduce_enqueued = False  # its first backward reduces late
        replica.reducer._set_static_graph()
        replica.logger._set_static_graph()
