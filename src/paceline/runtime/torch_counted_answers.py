"""Ranks that may be asked alone for what training changes: each answers by as many changes as
whoever asks has had.

Who asks stands still, and no other gets past its next pass without it. One who is still in the same
update, or loads the same checkpoint, answers behind it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Condition
from typing import Any

from paceline.runtime.exchange import ExchangeError
from paceline.runtime.torch_answers import Answers
from paceline.runtime.torch_optimizers import evaluated


class CountedAnswers:
    """One rank's side, both asking and answering; `strategy` is whose name errors tell."""

    def __init__(self, talk: Any, told: Callable[[Sequence[int]], Any], strategy: str) -> None:
        self._told, self._strategy = told, strategy
        self.changes = 0  # of weights or state: steps, loads
        self._turn = Condition()
        self._answers = Answers(talk, self._answer)

    def ask(self, place: int, *question: int, exact: bool = True) -> Any:
        """Of the rank at that place; by more changes than this one's only where not exact."""
        try:
            changes, answer = self._answers.ask(place, (self.changes, *question))
        except RuntimeError as error:  # gloo's, of a connection that is gone
            raise ExchangeError(
                "a worker has ended, and its part of the weights with it; let the script end with "
                "torch.distributed.destroy_process_group(), where workers wait for those that save"
            ) from error
        if exact and changes != self.changes:
            raise ExchangeError(
                f"a worker had changed its weights {changes} times under {self._strategy} when "
                f"this one, after {self.changes}, asked for them; evaluate and save behind "
                "optimizer.step()"
            )
        return answer

    def stop(self) -> None:
        self._answers.stop()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Around a change: no answer is of half of it."""
        with self._turn:
            yield
            self.changes += 1
            self._turn.notify_all()

    def changed(self, *_: Any) -> None:
        """Before a load and behind it, so that what is asked for between is refused."""
        with self.changing():
            pass

    def stepping(self, step: Callable[..., Any], stepped: Callable[[], None]) -> Callable[..., Any]:
        """An optimizer's step as a change, told of behind it."""

        def update(closure: Callable[[], Any] | None = None) -> Any:
            loss = evaluated(closure)
            with self.changing():
                step()
            stepped()
            return loss

        return update

    def _answer(self, question: Sequence[int]) -> tuple[int, Any]:
        changes, *asked = question
        with self._turn:
            self._turn.wait_for(lambda: self.changes >= changes)
            return self.changes, self._told(asked)
