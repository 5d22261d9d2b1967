"""Weights of which each worker of a pipeline holds its own stage's, and all of them when asked.

A script evaluates and saves whole models, often on one rank alone. So whatever runs the model
without a backward pass, or takes its state, first has the weights of the other stages brought:
their workers answer on a thread. They stay until the next batch is trained on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import IntEnum
from tempfile import TemporaryFile
from typing import Any

import torch
from torch import Tensor

from paceline.runtime.torch_counted_answers import CountedAnswers


class What(IntEnum):
    WEIGHTS = 0  # of the answering worker's stage, and its buffers
    STATES = 1  # of the optimizer, of those weights


@dataclass(frozen=True, eq=False)
class StageTensors:
    """What one stage holds."""

    weights: Sequence[Tensor]
    buffers: Sequence[Tensor]


class Owned:
    """One worker's side, both asking and answering."""

    def __init__(self, model: Any, optimizer: Any, talk: Any, flushes: bool) -> None:
        self._model, self._optimizer, self._flushes = model, optimizer, flushes
        self._stage, self._stages = 0, list[StageTensors]()
        self._whole: int | None = 0  # after how many changes all weights were brought
        self.answers = CountedAnswers(talk, self._told, "pipeline")

    def deal(self, stages: Sequence[StageTensors], mine: int) -> None:
        """Which stage holds what."""
        self._stages, self._stage = list(stages), mine

    @contextmanager
    def holding(self) -> Iterator[None]:
        """All workers come here with whole models, and leave so. Left by an error, each has what it
        came with: others may not be there to give what was learnt."""
        with TemporaryFile() as file:
            torch.save(self._held(), file)
            with ExitStack() as stack:
                for remove in self._hooks():
                    stack.callback(remove)
                try:
                    yield
                except BaseException:
                    file.seek(0)
                    self._give_back(torch.load(file, weights_only=True))
                    raise
                self.whole()
                self._optimizer.state.update(self._states_of_others())
        self.answers.stop()

    def part(self) -> None:
        """Only this stage's weights, from now on."""
        if self._whole is None:
            return
        self._whole = None
        for stage in self._others():
            for weight in self._stages[stage].weights:
                weight.data = weight.detach().new_empty(0)
                weight.grad = None
                self._optimizer.state.pop(weight, None)

    def whole(self, *, sure: bool = True) -> None:
        """All stages' weights, as they are after as many updates as this stage has had; or else, if
        they are about to be replaced, after as many at least."""
        if self._whole == self.answers.changes:
            return
        for stage in self._others():
            weights, buffers = self._ask(stage, What.WEIGHTS, sure=sure)
            for mine, brought in zip(self._stages[stage].weights, weights):
                mine.data = brought
            with torch.no_grad():
                for mine, brought in zip(self._stages[stage].buffers, buffers):
                    mine.copy_(brought)
        self._whole = self.answers.changes

    def _hooks(self) -> Iterator[Callable[[], None]]:
        model, optimizer = self._model, self._optimizer
        for module in model.modules():
            yield module.register_state_dict_pre_hook(lambda *_: self.whole()).remove
            yield module.register_load_state_dict_pre_hook(lambda *_: self.whole(sure=False)).remove
        yield model.register_load_state_dict_pre_hook(self.answers.changed).remove
        yield model.register_load_state_dict_post_hook(self._loaded).remove
        yield optimizer.register_state_dict_post_hook(self._with_states).remove
        yield optimizer.register_load_state_dict_pre_hook(self.answers.changed).remove
        yield optimizer.register_load_state_dict_post_hook(self.answers.changed).remove

    def _loaded(self, *_: Any) -> None:
        self.answers.changed()
        self._whole = self.answers.changes

    def _others(self) -> list[int]:
        return [stage for stage in range(len(self._stages)) if stage != self._stage]

    def _with_states(self, optimizer: Any, told: dict[str, Any]) -> dict[str, Any]:
        """Torch numbers parameters over all groups in turn."""
        every = [p for group in optimizer.param_groups for p in group["params"]]
        number = {id(p): at for at, p in enumerate(every)}
        states = dict(told["state"])
        for weight, state in self._states_of_others().items():
            states[number[id(weight)]] = state
        return {**told, "state": dict(sorted(states.items()))}

    def _states_of_others(self) -> dict[Tensor, Mapping[str, Any]]:
        if self._whole is not None and not self.answers.changes:
            return {}  # nothing was given away yet
        return {
            weight: state
            for stage in self._others()
            for weight, state in zip(self._stages[stage].weights, self._ask(stage, What.STATES))
            if state
        }

    def _ask(self, stage: int, what: What, *, sure: bool = True) -> Any:
        """Under 2BW another stage may be a change ahead."""
        return self.answers.ask(stage, what, exact=sure and self._flushes)

    def _told(self, question: Sequence[int]) -> Any:
        mine = self._stages[self._stage]
        if question[0] == What.STATES:
            return self._states(mine.weights)
        held = mine.weights, mine.buffers
        return tuple([each.detach().clone() for each in part] for part in held)

    def _states(self, weights: Sequence[Tensor]) -> list[dict[str, Any]]:
        return [_copied(self._optimizer.state.get(weight, {})) for weight in weights]

    def _held(self) -> Any:
        """The whole model, before it is shared out."""
        weights, buffers = list(self._model.parameters()), list(self._model.buffers())
        plain = [weight.detach() for weight in weights]
        return plain, [weight.grad for weight in weights], self._states(weights), buffers

    def _give_back(self, held: Any) -> None:
        weights, gradients, states, buffers = held
        with torch.no_grad():
            for weight, *kept in zip(self._model.parameters(), weights, gradients, states):
                weight.data, weight.grad, state = kept
                self._optimizer.state.pop(weight, None)
                if state:
                    self._optimizer.state[weight] = state
            for buffer, was in zip(self._model.buffers(), buffers):
                buffer.copy_(was)


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.clone() if isinstance(value, Tensor) else value for name, value in state.items()
    }
