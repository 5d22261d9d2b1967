"""Samples of a live job's data sets, kept once they were read: in a folder that workers share.

Every epoch of a DataLoader with workers starts new processes, so what one of them keeps to itself
is lost with it. Files in shared memory outlive them, and cost a copy at the memory's rate.
"""

import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, Protocol

from torch.utils.data import Dataset

from paceline.runtime.torch_loaders import loaders_with

_MEMORY: Final = Path("/dev/shm")


class Store(Protocol):
    """Samples by their place in the data set."""

    def get(self, place: int) -> Any: ...  # None where it is not there

    def put(self, place: int, sample: Any) -> None: ...


class Kept(Dataset[Any]):
    """A data set whose samples come from a store once they were read."""

    def __init__(self, source: Any, store: Store) -> None:
        self.source, self.store = source, store

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, place: int) -> Any:
        found = self.store.get(place)
        if found is None:
            found = self.source[place]
            self.store.put(place, found)
        return found

    def __getattr__(self, name: str) -> Any:
        if name == "source" or name.startswith("__"):  # unpickling; batches past the store
            raise AttributeError(name)
        return getattr(self.source, name)


class Pickles:
    """A file per sample. Written beside its place and renamed, for workers write at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, place: int) -> Any:
        try:
            return pickle.loads((self.folder / str(place)).read_bytes())
        except FileNotFoundError:
            return None

    def put(self, place: int, sample: Any) -> None:
        part = self.folder / f"{place}.{os.getpid()}"
        part.write_bytes(pickle.dumps(sample, protocol=5))
        part.rename(self.folder / str(place))


@contextmanager
def samples_kept(folder: str) -> Iterator[None]:
    with room(folder, _MEMORY) as place, stored_by(lambda at: Pickles(made(place / str(at)))):
        yield


@contextmanager
def stored_by(store_of: Callable[[int], Store]) -> Iterator[None]:
    """Every data set that is iterated has a store of its own, numbered as they come."""
    kept: dict[int, Kept] = {}

    def settings(loader: Any) -> dict[str, Any]:
        if not hasattr(loader.dataset, "__getitem__"):
            return {}
        source = loader.dataset
        if id(source) not in kept:
            kept[id(source)] = Kept(source, store_of(len(kept)))
        return {"dataset": kept[id(source)]}

    with loaders_with(settings):
        yield


def room(folder: str, usual: Path | None = None) -> AbstractContextManager[Path]:
    """The folder that was named, or a temporary one, in the usual place where there is one."""
    if folder:
        return nullcontext(made(Path(folder)))
    return _temporary(usual if usual is not None and usual.is_dir() else None)


@contextmanager
def _temporary(place: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="paceline-samples-", dir=place) as name:
        yield Path(name)


def made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
