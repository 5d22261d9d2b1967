"""Samples of a live job's data sets in files of another format, made when first asked for."""

import os
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from paceline.feed.errors import FeedError
from paceline.feed.formats import Array, Format
from paceline.runtime.torch_samples import made, room, stored_by

_TEMPLATE: Final = "template.pickle"


@contextmanager
def samples_in(kind: Format, folder: str) -> Iterator[None]:
    with room(folder) as place, stored_by(lambda at: Converted(kind, made(place / str(at)))):
        yield


class Converted:
    """A file per sample, which holds its tensors, arrays and numbers; one sample is kept whole, as
    the pattern of all."""

    def __init__(self, kind: Format, folder: Path) -> None:
        self.kind, self.folder = kind, folder

    def get(self, place: int) -> Any:
        path = self.folder / f"{place}{self.kind.suffix}"
        if not path.exists():
            return None
        template = pickle.loads((self.folder / _TEMPLATE).read_bytes())
        with path.open("rb") as file:
            samples = self.kind.open(file)
            parts = iter([np.array(samples[i]) for i in range(len(samples))])
            return _rebuilt(template, parts)

    def put(self, place: int, sample: Any) -> None:
        template = self.folder / _TEMPLATE
        if not template.exists():
            self._write(template, lambda part: part.write_bytes(pickle.dumps(sample)))
        parts = list(_leaves(sample))
        path = self.folder / f"{place}{self.kind.suffix}"
        self._write(path, lambda part: self.kind.write(part, parts))

    def _write(self, path: Path, write: Any) -> None:
        part = path.with_name(f"{path.name}.{os.getpid()}")
        write(part)
        part.rename(path)


def _leaves(sample: Any) -> Iterator[Array]:
    if isinstance(sample, torch.Tensor):
        yield sample.numpy()
    elif isinstance(sample, (np.ndarray, np.generic, bool, int, float)):
        yield np.asarray(sample)
    elif isinstance(sample, (tuple, list)):
        for each in sample:
            yield from _leaves(each)
    elif isinstance(sample, Mapping):
        for each in sample.values():
            yield from _leaves(each)
    else:
        raise FeedError(
            f"a sample holds a {type(sample).__name__}; samples in files of another format are "
            "tensors, arrays, numbers, and tuples, lists and dictionaries of them"
        )


def _rebuilt(like: Any, parts: Iterator[Array]) -> Any:
    if isinstance(like, torch.Tensor):
        return torch.from_numpy(next(parts))
    if isinstance(like, np.ndarray):
        return next(parts)
    if isinstance(like, (tuple, list)):
        each = [_rebuilt(one, parts) for one in like]
        return type(like)(*each) if hasattr(like, "_fields") else type(like)(each)
    if isinstance(like, Mapping):
        return {name: _rebuilt(one, parts) for name, one in like.items()}
    number = next(parts)
    return number[()] if isinstance(like, np.generic) else type(like)(number.item())
