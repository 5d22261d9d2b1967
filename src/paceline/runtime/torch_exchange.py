"""Install in a live DDP job what the strategies said of its exchange, and take it out again: every
bucket goes through one hook, which compresses, remembers, communicates and counts. Where buckets
alone change, DDP exchanges them by itself.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import torch
import torch.distributed as dist

from paceline.runtime.codecs import Codec, Compressor, Turn
from paceline.runtime.codecs.torch_casts import plain
from paceline.runtime.codecs.torch_memory import memory_of
from paceline.runtime.codecs.turns import Turns
from paceline.runtime.exchange import Exchange, ExchangeError, Sent, Weighing
from paceline.runtime.rounds.torch_driver import exchanging, stays
from paceline.runtime.run import Run
from paceline.runtime.stages.dealt import Piped
from paceline.runtime.stages.torch_border import Border
from paceline.runtime.stages.torch_pipelining import bordered
from paceline.runtime.torch_accumulate import accumulating
from paceline.runtime.torch_early_update import EarlyUpdates
from paceline.runtime.torch_iterative import iterative_hook
from paceline.runtime.torch_late_update import LateUpdates
from paceline.runtime.torch_optimizers import sole
from paceline.runtime.torch_owners import owning
from paceline.runtime.torch_reducer import Answer, reduces, with_reducer, without_reducer
from paceline.runtime.torch_routes import Route, route_of
from paceline.runtime.torch_sharded import sharded_modules, with_codec
from paceline.runtime.torch_sufficient_factors import with_factors
from paceline.runtime.torch_uncoded import counting, travels_as_it_is


@contextmanager
def installed(run: Run) -> Iterator[Sent]:
    """The exchange that the run's strategies asked for, until the context is left."""
    asked, sent = run.exchange, Sent()
    _require_one_way(asked)
    if asked.elsewhere:
        if asked != Exchange(elsewhere=True):
            raise ExchangeError("the plan changes an exchange that it has replaced; leave one out")
        with sole(run.optimizer, run.replicas):
            yield sent
        return
    if asked.sharded:
        with _under_fsdp2(run, sent):
            yield sent
        return
    if asked.piped is not None:
        with _as_pipeline(run, asked.piped, sent):
            yield sent
        return
    shards = [] if run.replicas or asked.codec is None else sharded_modules(run.model)
    if not run.replicas and not shards and asked.asks:
        raise ExchangeError(
            "this job has no DistributedDataParallel module, whose exchange the plan would change; "
            "wrap the model in DDP (or FSDP2, for codecs), or leave out what changes the exchange"
        )
    if shards:
        _require_codec_alone(asked)
    for replica in run.replicas:
        _require_free(replica)
        if asked.codec is not None or asked.parts > 1 or asked.on_host or asked.served:
            _require_dense(replica)
        if asked.codec is not None or asked.rounds is not None:
            _require_float32(replica)
    apart = _updates_apart(run)
    with ExitStack() as stack:
        if _at_other_times(asked):
            stack.enter_context(sole(run.optimizer, run.replicas))
        if shards and asked.codec is not None:
            stack.enter_context(with_codec(shards, asked.codec, sent))
        for replica in run.replicas:
            if asked.pairs:
                stack.enter_context(_sharing_pairs(run, sent))
            if asked.factors is not None:
                stack.enter_context(with_factors(run, replica, asked.factors, sent))
            if not reduces(replica):
                stack.enter_context(_without_buckets(run, replica, sent))
                continue
            if travels_as_it_is(asked, replica):
                stack.enter_context(with_reducer(replica, run))
                stack.enter_context(counting(replica, sent))
                continue
            hook = stack.enter_context(_hook(run, replica, sent))
            stack.enter_context(
                with_reducer(replica, run, hook if apart is None else apart.behind(hook))
            )
        if asked.rounds is not None:
            stack.enter_context(exchanging(run, asked.rounds, sent))
        if asked.owned:
            stack.enter_context(owning(run, sent))
        if asked.passes.count > 1:
            stack.enter_context(accumulating(run, asked.passes))
        if apart is not None:
            stack.enter_context(apart.installed())
        if asked.border_ratio:
            counted = None if run.replicas else run.optimizer
            stack.enter_context(bordered(Border(asked.border_ratio), counted, sent))
        yield sent


@contextmanager
def _under_fsdp2(run: Run, sent: Sent) -> Iterator[None]:
    from paceline.runtime.shards.torch_sharding import sharded

    _require_alone(run, Exchange(sharded=True), "fully_sharded")
    with sole(run.optimizer, run.replicas), sharded(run, sent):
        yield


@contextmanager
def _as_pipeline(run: Run, asked: Piped, sent: Sent) -> Iterator[None]:
    from paceline.runtime.stages.torch_piped import piped

    _require_alone(run, Exchange(piped=asked), "pipeline")
    with sole(run.optimizer, run.replicas), piped(run, asked, sent):
        yield


def _require_alone(run: Run, asked: Exchange, strategy: str) -> None:
    """Nothing else is asked of the exchange, nor done to it by the script."""
    if run.exchange != asked:
        raise ExchangeError(
            f"under {strategy} weights and gradients travel in its way; leave all that changes the "
            f"exchange or the update beside {strategy} out"
        )
    for replica in run.replicas:
        _require_free(replica)
        _require_dense(replica)


@contextmanager
def _sharing_pairs(run: Run, sent: Sent) -> Iterator[None]:
    from paceline.runtime.pairs.torch_paired import paired

    with paired(run, run.exchange.pairs, sent):
        yield


@contextmanager
def _without_buckets(run: Run, replica: Any, sent: Sent) -> Iterator[None]:
    """Of a replica whose gradients all travel in another way. Steps are the optimizer's."""
    if run.exchange.buckets is not None:
        raise ExchangeError(
            "no gradient of this job is left for a bucket, since all travel in another way; leave "
            "buckets out of the plan"
        )
    counting = run.optimizer.register_step_post_hook(lambda *_: sent.stepped())
    try:
        with without_reducer(replica):
            yield
    finally:
        counting.remove()


def _at_other_times(asked: Exchange) -> bool:
    """Whether weights are updated, or momentum is added, elsewhere than in the optimizer's step
    behind an exchange, which holds for one optimizer alone."""
    taken_over = asked.codec is not None and asked.codec.momentum is not None
    return asked.passes.count > 1 or asked.rounds is not None or asked.late or taken_over


def _updates_apart(run: Run) -> LateUpdates | EarlyUpdates | None:
    """Who updates parameters apart from the optimizer's step, if the plan asks for it."""
    if run.exchange.early:
        return EarlyUpdates(run)
    return LateUpdates(run) if run.exchange.late else None


def _require_one_way(asked: Exchange) -> None:
    """Plans that were not checked by their strategies' conflicts are refused here."""
    if asked.rounds is not None and asked != Exchange(asked.buckets, rounds=asked.rounds):
        raise ExchangeError("the plan changes how gradients travel, and under it none do")
    if asked.weighing is not None and (asked.rounds is not None or asked.passes.count > 1):
        raise ExchangeError("workers count unequally in each step's mean, and the plan has none")
    if asked.early and (asked.late or asked.owned or asked.passes.count > 1):
        raise ExchangeError(
            "each bucket is updated once it has arrived, and the plan asks for another update "
            "beside it; leave early_update out"
        )
    if asked.factors is not None and asked != Exchange(asked.buckets, factors=asked.factors):
        raise ExchangeError(
            "gradients of some layers are made of all workers' rows, and the plan asks for another "
            "way beside it; leave sufficient_factors out"
        )
    if asked.pairs and asked != Exchange(asked.buckets, pairs=asked.pairs):
        raise ExchangeError(
            "workers share layers, whose gradients travel in a way of their own, and the plan asks "
            "for another exchange or update beside it; leave tensor_parallel out"
        )
    in_rounds = asked.codec is not None and not isinstance(asked.codec.compressor, Compressor)
    unequal = asked.weighing is not None
    if in_rounds and (
        unequal or asked.parts > 1 or asked.by_priority or asked.on_host or asked.served
    ):
        raise ExchangeError(
            "this codec exchanges a bucket in several rounds, one behind the other, and the plan "
            "asks for another way; leave out partition, priority, hierarchical, parameter_server"
        )


def _require_codec_alone(asked: Exchange) -> None:
    """FSDP2 reduces by a codec of ours, and does all else by itself."""
    if asked != Exchange(codec=asked.codec, border_ratio=asked.border_ratio):
        raise ExchangeError(
            "under FSDP2 a plan changes the form in which gradients travel, and nothing else of "
            "their exchange or of the update; leave all but the codec out of the plan"
        )


@contextmanager
def _hook(run: Run, replica: Any, sent: Sent) -> Iterator[Answer]:
    asked, codec, group = run.exchange, run.exchange.codec or plain(), replica.process_group
    members = dist.get_world_size(group)
    share = 1.0 / (asked.passes.count * members)
    if asked.rounds is not None:
        yield stays
    elif isinstance(codec.compressor, Compressor):
        with route_of(asked, replica) as route:
            mine = GradientShare(share, members, asked.weighing or Weighing())
            yield Hook(codec, codec.compressor, mine, sent, route).__call__
    else:
        with iterative_hook(codec, group, share, sent) as hook:
            yield hook.__call__


@dataclass(frozen=True)
class GradientShare:
    """What each rank's gradient is of the mean."""

    equal: float
    members: int
    weighing: Weighing

    @property
    def of_mean(self) -> float:
        return self.equal * self.weighing.now


class Hook:
    """DDP's communication hook: one bucket's gradients become their mean over all ranks."""

    def __init__(
        self, codec: Codec, how: Compressor, share: GradientShare, sent: Sent, route: Route
    ) -> None:
        self._codec, self._how, self._route, self._sent = codec, how, route, sent
        self._share = share
        self._memory = memory_of(codec, share.members)
        self._turns = Turns()

    def __call__(self, _: None, bucket: Any) -> Any:
        started = perf_counter_ns()
        how, gradient, turn = self._how, bucket.buffer(), self._turns.next(bucket)
        payload = self._payload(gradient, bucket, turn)
        self._sent.coded(perf_counter_ns() - started)
        under = self._route(self._codec.sharing, payload, bucket)
        self._sent.call(under.size_bytes, under.wire_bytes, under.calls)
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
        how, key = self._how, tuple(id(parameter) for parameter in bucket.parameters())
        if not self._codec.remembers:
            return how.averaged(gradient, self._share.of_mean, turn)
        corrected = self._memory.corrected(key, gradient.mul_(self._share.of_mean))
        payload = how.compress(corrected, turn)
        self._memory.sent(corrected, payload, how, turn)
        return payload


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


def _require_dense(replica: Any) -> None:
    _, sparse = replica._build_params_for_reducer()
    if any(sparse):
        raise ExchangeError(
            "gradients of an embedding with sparse=True travel as the library sends them, and "
            "cannot be packed or cut; leave what changes how gradients travel out of the plan, or "
            "take sparse=False"
        )


def _require_float32(replica: Any) -> None:
    found = {p.dtype for p in replica.parameters() if p.requires_grad} - {torch.float32}
    if found:
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in found))
        raise ExchangeError(
            f"only float32 is packed, and this job trains {names}; leave that change out"
        )
