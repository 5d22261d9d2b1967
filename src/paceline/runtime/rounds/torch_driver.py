"""`exchanging`: rounds behind the optimizer's steps of a live DDP job, until the context is left.

All ranks must step equally often. Leaving without an error waits for what is under way, drops it,
and brings weights and the optimizer's tensors of all ranks to their mean. A checkpoint that is
taken before holds the weights of the rank that takes it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import Any

import torch
import torch.distributed as dist

from paceline.graph.rounds import Round, fragments_of
from paceline.runtime.codecs import Sharing
from paceline.runtime.codecs.torch_communicate import Under, share
from paceline.runtime.exchange import ExchangeError, Sent
from paceline.runtime.rounds.merge import ReplicaFragment, WeightRounds
from paceline.runtime.rounds.torch_flat import fill, flat
from paceline.runtime.run import Run
from paceline.runtime.torch_optimizers import updates_a_part


def stays(_: None, bucket: Any) -> Any:
    """DDP's communication hook: a bucket's gradients are this rank's own."""
    done: Any = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


@contextmanager
def exchanging(run: Run, asked: WeightRounds, sent: Sent) -> Iterator[None]:
    if updates_a_part(run.optimizer):
        raise ExchangeError(
            "this job's optimizer updates a part of the weights on each rank (ZeRO), and ranks "
            "that train alone must update all; take a plain optimizer, or leave the change out"
        )
    drivers = [_Driver(run.optimizer, replica, asked, sent) for replica in run.replicas]

    def stepped(*_: Any) -> None:
        sent.stepped()
        for driver in drivers:
            driver.stepped()

    hook = run.optimizer.register_step_post_hook(stepped)
    try:
        yield
        for driver in drivers:
            driver.agree()
    finally:
        hook.remove()


@dataclass(frozen=True, eq=False)
class _UnderWay:
    round: Round
    arrives: int  # behind this step
    call: Under


class _Driver:
    """The rounds of one replica."""

    def __init__(self, optimizer: Any, replica: Any, asked: WeightRounds, sent: Sent) -> None:
        self._optimizer, self._group, self._sent = optimizer, replica.process_group, sent
        self._asked, self._merge = asked.rounds, asked.merge()
        weights = _trained(optimizer, replica)
        sizes = [weight.numel() * weight.element_size() for weight in weights]
        parts = [
            tuple(weights[i] for i in part) for part in fragments_of(sizes, self._asked.fragments)
        ]
        self._parts = [
            ReplicaFragment(number, part, partial(_states, optimizer, part))
            for number, part in enumerate(parts)
        ]
        self._step = 0
        self._under_way: list[_UnderWay] = []
        for part in self._parts:
            self._merge.begin(part)

    def stepped(self) -> None:
        """First what came, then what is handed over, as in the graph."""
        arrived = [each for each in self._under_way if each.arrives == self._step]
        self._under_way = [each for each in self._under_way if each.arrives > self._step]
        for call in arrived:
            self._take(call)
        for each in self._asked.rounds:
            if self._step % self._asked.period == each.step:
                sent = self._send(each)
                if each.lasts:
                    self._under_way.append(sent)
                else:
                    self._take(sent)
        self._step += 1

    def agree(self) -> None:
        """Weights and the optimizer's tensors of all ranks become their mean."""
        for each in self._under_way:
            each.call.future.wait()
        self._under_way = []
        for part in self._parts:
            for tensors in (part.weights, part.states()):
                if tensors:
                    mean = share(Sharing.SUM, flat(tensors), self._group)
                    mean.future.wait()
                    fill(tensors, self._mean(mean))

    def _send(self, each: Round) -> _UnderWay:
        payload = self._timed(lambda: self._merge.pack(self._parts[each.fragment]))
        under = share(Sharing.SUM, payload, self._group)
        self._sent.call(under.size_bytes, under.wire_bytes)
        return _UnderWay(each, self._step + each.lasts, under)

    def _take(self, each: _UnderWay) -> None:
        each.call.future.wait()
        part = self._parts[each.round.fragment]
        self._timed(lambda: self._merge.take(part, self._mean(each.call)))

    def _mean(self, call: Under) -> torch.Tensor:
        return call.payloads[0].div_(dist.get_world_size(self._group))

    def _timed(self, work: Callable[[], Any]) -> Any:
        began = perf_counter_ns()
        found = work()
        self._sent.coded(perf_counter_ns() - began)
        return found


def _trained(optimizer: Any, replica: Any) -> list[torch.Tensor]:
    """The replica's weights, in the optimizer's order, as recordings list them."""
    mine = {id(weight) for weight in replica.parameters() if weight.requires_grad}
    given = (weight for group in optimizer.param_groups for weight in group["params"])
    return [weight for weight in given if id(weight) in mine]


def _states(optimizer: Any, weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The optimizer's tensors that are as large as the weight that they belong to."""
    return [
        value
        for weight in weights
        for value in optimizer.state.get(weight, {}).values()
        if isinstance(value, torch.Tensor) and value.shape == weight.shape
    ]
