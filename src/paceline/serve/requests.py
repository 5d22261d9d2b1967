"""A request in the server: its inputs, and its parts as they are answered."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paceline.errors import PacelineError
from paceline.serve.frames import Arrays
from paceline.serve.queue import Piece


@dataclass(frozen=True)
class OutputSlice:
    """Outputs of samples `first` to `end`, without `end`."""

    first: int
    end: int
    outputs: Arrays


@dataclass(frozen=True, eq=False)
class Request:
    number: int
    inputs: Arrays
    samples: int
    answers: "asyncio.Queue[OutputSlice | PacelineError]" = field(default_factory=asyncio.Queue)

    async def parts(self) -> AsyncIterator[OutputSlice]:
        """As they come, until all samples are answered; an error ends it."""
        left = self.samples
        while left:
            part = await self.answers.get()
            if isinstance(part, PacelineError):
                raise part
            left -= part.end - part.first
            yield part


def gathered(requests: Mapping[int, Request], pieces: Sequence[Piece]) -> Arrays:
    """The inputs of a batch, its pieces one after the other."""
    found: dict[str, Any] = {}
    for name in requests[pieces[0].request].inputs:
        rows = [requests[one.request].inputs[name][one.first : one.end] for one in pieces]
        found[name] = rows[0] if len(rows) == 1 else np.concatenate(rows)
    return found


def handed_out(pieces: Sequence[Piece], outputs: Arrays) -> list[tuple[int, OutputSlice]]:
    """Which request gets which part of a batch's outputs."""
    found, at = [], 0
    for piece in pieces:
        rows = {name: array[at : at + piece.samples] for name, array in outputs.items()}
        found.append((piece.request, OutputSlice(piece.first, piece.end, rows)))
        at += piece.samples
    return found


def whole(parts: Sequence[OutputSlice]) -> Arrays:
    """All outputs of a request, in the order of its samples."""
    ordered = sorted(parts, key=lambda part: part.first)
    names = ordered[0].outputs
    return {name: np.concatenate([part.outputs[name] for part in ordered]) for name in names}
