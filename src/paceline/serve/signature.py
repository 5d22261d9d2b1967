"""`Signature`: the arrays that a model takes and gives, of one sample."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import msgspec
import numpy as np

from paceline.serve.errors import BadRequest, TooLarge
from paceline.serve.frames import Arrays


@dataclass(frozen=True)
class Tensor:
    """One array of a model, without the batch's dimension."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.name!r} of {self.dtype} [samples{''.join(f', {n}' for n in self.shape)}]"


@dataclass(frozen=True)
class Signature:
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @staticmethod
    def of(facts: Mapping[str, Any]) -> "Signature":
        return msgspec.convert(facts, Signature)

    def __str__(self) -> str:
        return ", ".join(str(tensor) for tensor in self.inputs)

    def samples(self, arrays: Arrays, largest: int) -> int:
        """How many samples these inputs hold; an error where they are not what the model takes."""
        if wrong := set(arrays) ^ {tensor.name for tensor in self.inputs}:
            raise BadRequest(f"inputs {sorted(wrong)} are missing or unknown; allowed: {self}")
        for tensor in self.inputs:
            shape = arrays[tensor.name].shape
            if len(shape) != len(tensor.shape) + 1 or shape[1:] != tensor.shape:
                raise BadRequest(
                    f"input {tensor.name!r} has shape {list(shape)}; allowed: {tensor}"
                )
        counts = {name: len(array) for name, array in arrays.items()}
        if len(set(counts.values())) > 1:
            raise BadRequest(f"inputs have unequal numbers of samples: {counts}; give equal ones")
        count = next(iter(counts.values()))
        if count < 1:
            raise BadRequest("a request of no samples; send 1 or more")
        if count > largest:
            raise TooLarge(
                f"a request of {count} samples; at most {largest} are taken at once. Send several "
                "requests, or start the server with a larger --batch"
            )
        return count
