"""Ranks that may be asked alone: on each a thread answers, so that one rank may ask while others go
on, as scripts do that save on rank 0.
"""

import io
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

_ASK, _ANSWER = 1, 2  # tags
_QUESTION, _STOP = 1, 0  # what is asked
_WORDS = 3  # whole numbers of a question

Answer = Callable[[Sequence[int]], Any]
"""Of a question: what is sent back. It runs on a thread of its own."""


class Answers:
    """One rank of a gloo group that nobody else uses."""

    def __init__(self, group: Any, answer: Answer) -> None:
        self._group, self._answer = group, answer
        self._ranks = dist.get_process_group_ranks(group)
        self._me = self._ranks.index(dist.get_rank())
        self._thread = threading.Thread(target=self._listen, name="answers", daemon=True)
        self._thread.start()

    def ask(self, place: int, question: Sequence[int] = ()) -> Any:
        """The answer of the rank at that place in the group, which may be any but this one."""
        rank = self._ranks[place]
        words = [*question, *(0 for _ in range(_WORDS - len(question)))]
        dist.send(torch.tensor([_QUESTION, dist.get_rank(), *words]), rank, self._group, _ASK)
        return _received(rank, self._group)

    def stop(self) -> None:
        """Once nobody asks any more, each ends the thread of the next."""
        dist.barrier(self._group)
        if len(self._ranks) > 1:
            following = self._ranks[(self._me + 1) % len(self._ranks)]
            words = [_STOP, dist.get_rank(), *(0 for _ in range(_WORDS))]
            dist.send(torch.tensor(words), following, self._group, _ASK)
            self._thread.join()

    def _listen(self) -> None:
        asked = torch.zeros(2 + _WORDS, dtype=torch.int64)
        while len(self._ranks) > 1:
            try:
                dist.recv(asked, group=self._group, tag=_ASK)
            except RuntimeError:  # the job ended, and its group with it
                return
            what, rank, *question = asked.tolist()
            if what == _STOP:
                return
            _send(self._answer(question), rank, self._group)


def _send(answer: Any, rank: int, group: Any) -> None:
    file = io.BytesIO()
    torch.save(answer, file)
    data = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
    dist.send(torch.tensor([len(data)]), rank, group, _ANSWER)
    dist.send(data, rank, group, _ANSWER)


def _received(rank: int, group: Any) -> Any:
    length = torch.zeros(1, dtype=torch.int64)
    dist.recv(length, rank, group, _ANSWER)
    data = torch.empty(int(length), dtype=torch.uint8)
    dist.recv(data, rank, group, _ANSWER)
    return torch.load(io.BytesIO(data.numpy().tobytes()), weights_only=True)
