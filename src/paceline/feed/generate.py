"""`generate`: a data set to a description; `open_data`: one that was written.

What is written follows from the description alone, file by file, so that a generation that was
interrupted goes on where it stopped. `dataset.json` says what lies in the folder, and is written
last.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, sqrt
from pathlib import Path
from typing import Final

import numpy as np

from paceline.feed.description import Description, as_yaml, parse, scaled
from paceline.feed.errors import FeedError
from paceline.feed.formats import Array, format_of

MANIFEST: Final = "dataset.json"
DESCRIPTION: Final = "description.json"
_TAKEN: Final = 0.5  # of the free disk, where a data set is to be as large as it allows
_LEAST_SHARE: Final = 0.1  # of the mean size, of the smallest sample
_HEAD_BYTES: Final = 4096  # per file: heads, and what the file system rounds up
_VALUES: Final = 64
"""Random bytes below this: six of eight bits tell something, as pixels and voxels about have it."""


@dataclass(frozen=True)
class DataSet:
    """Files on a disk. Sample i is `i % samples_per_file` of file `i // samples_per_file`."""

    folder: Path
    description: Description

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(self.file(number) for number in range(self.description.files))

    def file(self, number: int) -> Path:
        return self.folder / file_name(self.description, number)

    def place(self, sample: int) -> tuple[int, int]:
        """(file, place in it)."""
        return divmod(sample, self.description.samples_per_file)


def generate(given: Description, folder: Path, spare_bytes: int = 0) -> DataSet:
    """Writes what is not there yet. `spare_bytes` are to be free on the disk afterwards."""
    made = DataSet(folder, given)
    _require_same(made)
    lacking = [number for number, path in enumerate(made.files) if not path.exists()]
    _require_room(folder, _bytes_of(given, lacking), spare_bytes)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DESCRIPTION).write_text(json.dumps(as_yaml(given), indent=1))
    kind, sizes = format_of(given.format), sizes_of(given)
    for number in lacking:
        path = made.file(number)
        part = path.with_suffix(".part")
        kind.write(part, samples_of(given, number, sizes), given.compression)
        part.rename(path)
    (folder / MANIFEST).write_text(json.dumps({"files": given.files, "samples": given.samples}))
    return made


def fitted(given: Description, folder: Path) -> Description:
    """As many of its samples as half of the free disk holds, all where it holds them. Where the
    folder has a part of them already, as many as were to be written there."""
    path = folder / DESCRIPTION
    if path.exists():
        begun = parse(path.read_text(), str(path))
        if replace(given, samples=begun.samples, samples_per_file=begun.samples_per_file) == begun:
            return begun
    wanted = given.samples * (given.size_bytes + _HEAD_BYTES / given.samples_per_file)
    return scaled(given, min(1.0, _TAKEN * shutil.disk_usage(_there(folder)).free / wanted))


def open_data(folder: Path) -> DataSet:
    """A data set that `generate` finished."""
    try:
        text = (folder / DESCRIPTION).read_text()
    except OSError as error:
        raise FeedError(
            f"{folder} holds no data set ({error.strerror}: description.json); make one with "
            "`paceline io generate unet3d --scale 0.01 -o FOLDER`"
        ) from error
    if not (folder / MANIFEST).exists():
        raise FeedError(f"{folder} was not finished; generate it again, which goes on from there")
    return DataSet(folder, parse(text, str(folder / DESCRIPTION)))


def sizes_of(given: Description) -> tuple[int, ...]:
    """Bytes of each sample: normally distributed, none below a tenth of the mean."""
    drawn = np.random.default_rng(given.seed).normal(
        given.size_bytes, given.spread_bytes, given.samples
    )
    least = max(1, round(given.size_bytes * _LEAST_SHARE))
    return tuple(np.maximum(np.rint(drawn), least).astype(np.int64).tolist())


def samples_of(given: Description, number: int, sizes: Sequence[int]) -> Sequence[Array]:
    """The samples of a file; `sizes` are those of the whole data set."""
    first = number * given.samples_per_file
    mine = sizes[first : first + given.samples_per_file]
    draws = np.random.default_rng([given.seed, number])
    return [_sample(size, draws, image=format_of(given.format).images) for size in mine]


def file_name(given: Description, number: int) -> str:
    return f"{given.name}-{number:07d}{format_of(given.format).suffix}"


def _sample(size: int, draws: np.random.Generator, *, image: bool) -> Array:
    if not image:
        return draws.integers(0, _VALUES, size, np.uint8)
    return _picture(max(8, round(sqrt(size / 3))), draws)


def _picture(side: int, draws: np.random.Generator) -> Array:
    """Colours that change slowly, with some noise: pure noise would not compress as photos do."""
    coarse = draws.integers(0, 224, (ceil(side / 8), ceil(side / 8), 3), np.uint8)
    smooth = np.kron(coarse, np.ones((8, 8, 1), np.uint8))[:side, :side]
    return np.asarray(smooth + draws.integers(0, 32, smooth.shape, np.uint8))


def _bytes_of(given: Description, files: Sequence[int]) -> int:
    """At most: formats that compress take less."""
    sizes, each = sizes_of(given), given.samples_per_file
    held = (sum(sizes[number * each : (number + 1) * each]) for number in files)
    return sum(held) + _HEAD_BYTES * len(files)


def _require_same(made: DataSet) -> None:
    path = made.folder / DESCRIPTION
    if path.exists() and parse(path.read_text(), str(path)) != made.description:
        raise FeedError(
            f"{made.folder} holds another data set; give a new folder, or remove that one"
        )


def _require_room(folder: Path, wanted: int, spare_bytes: int) -> None:
    free = shutil.disk_usage(_there(folder)).free
    if wanted + spare_bytes > free:
        fits = max(0, free - spare_bytes) / max(1, wanted)
        raise FeedError(
            f"{folder} would take {wanted / 1e9:,.1f} GB, and the disk has {free / 1e9:,.1f} GB "
            f"free; nothing was written. Give a smaller --scale (at most {fits:.2g} times this "
            "one, or disk), or another disk"
        )


def _there(folder: Path) -> Path:
    """The folder, or the nearest above it that there is."""
    return next(each for each in (folder, *folder.absolute().parents) if each.exists())
