"""What one rank asks of the others alone: weights to evaluate with, all of them to save."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from paceline.runtime.exchange import ExchangeError
from paceline.runtime.parts.torch_cuttable import Trained
from paceline.runtime.parts.torch_parts import dim_of, like, state_in_parts
from paceline.runtime.torch_attributes import instead
from paceline.runtime.torch_counted_answers import CountedAnswers


@dataclass(frozen=True, eq=False)
class Cut:
    """A job whose weights are cut."""

    plain: Trained
    parts: Sequence[DTensor]  # of those of the job's tensors that are cut
    mesh: Any
    strategy: str  # whose name errors tell


class What(IntEnum):
    GROUP = 0  # this rank's part of several weights, as it is gathered
    WEIGHT = 1  # of a parameter
    STATES = 2  # of the optimizer, of all parameters


Gathered = Callable[[int], torch.Tensor]
"""Of a group's number: this rank's part of its weights."""


class Lone:
    """One rank's side, both asking and answering."""

    def __init__(self, job: Cut, talk: Any, gathered: Gathered | None = None) -> None:
        self._job, self._parts, self._strategy = job.plain, job.parts, job.strategy
        self._gathered = gathered
        self._me, self._count = job.mesh.get_local_rank(), job.mesh.size()
        self._answers = CountedAnswers(talk, self._told, job.strategy)

    @contextmanager
    def serving(self, stepped: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Steps are told, and checkpoints hold all: each with the other ranks' parts."""
        optimizer = self._job.optimizer
        with ExitStack() as stack:
            stack.enter_context(
                instead(optimizer, "step", lambda step: self._answers.stepping(step, stepped))
            )
            for remove in self._hooks():
                stack.callback(remove)
            yield
        self._answers.stop()

    def group(self, number: int, place: int) -> torch.Tensor:
        found: torch.Tensor = self._answers.ask(place, What.GROUP, number)
        return found

    def weight(self, part: DTensor) -> torch.Tensor:
        """The whole of it."""
        mine: torch.Tensor = part.to_local().detach()
        number = self._number_of(part)
        parts = [
            mine
            if place == self._me
            else self._answers.ask(place, What.WEIGHT, number).to(mine.device)
            for place in range(self._count)
        ]
        return torch.cat(parts, dim_of(part))

    @property
    def changes(self) -> int:
        """How often weights or state have changed."""
        return self._answers.changes

    def _hooks(self) -> Iterator[Callable[[], None]]:
        for module in self._job.model.modules():
            if any(isinstance(p, DTensor) for p in module._parameters.values()):
                yield module.register_state_dict_post_hook(partial(self._weights_whole)).remove
                yield module.register_load_state_dict_pre_hook(self._weights_cut).remove
                yield module.register_load_state_dict_post_hook(self._answers.changed).remove
        optimizer = self._job.optimizer
        yield optimizer.register_state_dict_post_hook(self._states_whole).remove
        yield optimizer.register_load_state_dict_pre_hook(self._answers.changed).remove
        yield optimizer.register_load_state_dict_post_hook(self._states_cut).remove

    def _weights_whole(self, module: Any, state: dict[str, Any], prefix: str, _: Any) -> None:
        for name, tensor in module._parameters.items():
            if isinstance(state.get(prefix + name), DTensor):
                state[prefix + name] = self.weight(tensor)

    def _weights_cut(self, module: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
        self._answers.changed()
        for name, tensor in module._parameters.items():
            given = state.get(prefix + name)
            if not isinstance(tensor, DTensor) or isinstance(given, DTensor):
                continue
            if isinstance(given, torch.Tensor):
                state[prefix + name] = like(tensor, given.to(tensor.device))

    def _states_whole(self, optimizer: Any, told: dict[str, Any]) -> dict[str, Any]:
        """Torch numbers parameters over all groups in turn."""
        every = [p for group in optimizer.param_groups for p in group["params"]]
        number = {id(p): at for at, p in enumerate(every)}
        parts = [
            self._states() if place == self._me else self._answers.ask(place, What.STATES)
            for place in range(self._count)
        ]
        states = dict(told["state"])
        for at, tensor in enumerate(self._parts):
            if mine := optimizer.state.get(tensor):
                states[number[id(tensor)]] = _joined(mine, [part[at] for part in parts])
        return {**told, "state": states}

    def _states_cut(self, optimizer: Any) -> None:
        with self._answers.changing():
            for tensor in self._parts:
                if state := optimizer.state.get(tensor):
                    optimizer.state[tensor] = state_in_parts(tensor, state)

    def _told(self, question: Sequence[int]) -> Any:
        what, number, *_ = question
        if what == What.STATES:
            return self._states()
        if what == What.WEIGHT:
            return self._parts[number].to_local().detach().clone()
        if self._gathered is None:
            raise ExchangeError(f"no weights are gathered together under {self._strategy}")
        return self._gathered(number)

    def _states(self) -> list[dict[str, Any]]:
        held = self._job.optimizer.state
        return [
            {name: _local(value) for name, value in held.get(tensor, {}).items()}
            for tensor in self._parts
        ]

    def _number_of(self, tensor: Any) -> int:
        return next(at for at, each in enumerate(self._parts) if each is tensor)


def _local(value: Any) -> Any:
    if isinstance(value, DTensor):
        return value.to_local().clone()
    return value.clone() if isinstance(value, torch.Tensor) else value


def _joined(mine: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A parameter's state, of its parts by rank; what is not cut is this rank's."""
    return {
        name: torch.cat([part[name].to(value.device) for part in parts], dim_of(value))
        if isinstance(value, DTensor)
        else value
        for name, value in mine.items()
    }
