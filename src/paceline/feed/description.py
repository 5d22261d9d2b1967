"""`Description`: a data set and the training that it feeds, from YAML, read strictly.

name: unet3d
format: npz                      # npz, hdf5, parquet, tfrecord, jpeg, png, raw
samples: 168
samples_per_file: 1
size: 146600628B                 # of a sample in the mean; also 140MiB
spread: 68341808B                # standard deviation; no sample is below a tenth of the mean
compression: none                # or gzip, where the format knows it
batch: 7
compute: 323ms                   # of a batch, on the accelerator
crop: 2MiB                       # what of each sample goes into the batch
utilisation: 0.9                 # that MLPerf Storage asks for
source: ...
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml

from paceline.cluster.quantities import ClusterError, duration, show_duration, show_size, size
from paceline.feed.errors import FeedError
from paceline.feed.formats import COMPRESSIONS, FORMATS

LEAST_SAMPLE: Final = 16
"""Bytes: smaller samples are no training data, and formats' own headers would be all."""


@dataclass(frozen=True)
class Description:
    """What is written, and how it is consumed."""

    name: str
    format: str
    samples: int
    size_bytes: int  # of a sample as an array, in the mean
    samples_per_file: int = 1
    spread_bytes: int = 0
    compression: str = "none"
    batch: int = 1
    compute_ns: int = 0
    crop_bytes: int = 0  # 0: the mean size
    utilisation: float = 0.0  # asked for; 0: nothing is
    seed: int = 0
    source: str = ""

    def __post_init__(self) -> None:
        _require(self.format in FORMATS, f"format is {self.format!r}; known: {', '.join(FORMATS)}")
        known = COMPRESSIONS[self.format]
        _require(
            self.compression in known,
            f"compression of {self.format} is {self.compression!r}; known: {', '.join(known)}",
        )
        for name in ("samples", "samples_per_file", "batch"):
            _require(getattr(self, name) >= 1, f"{name} is {getattr(self, name)}; give 1 or more")
        _require(
            self.size_bytes >= LEAST_SAMPLE,
            f"a sample has {self.size_bytes} bytes; give {LEAST_SAMPLE} or more",
        )
        alone = FORMATS[self.format].images
        _require(
            not alone or self.samples_per_file == 1,
            f"a {self.format} file holds one image; samples_per_file is {self.samples_per_file}",
        )
        _require(0 <= self.utilisation <= 1, f"utilisation is {self.utilisation}; give a share")

    @property
    def files(self) -> int:
        return -(-self.samples // self.samples_per_file)

    @property
    def taken_bytes(self) -> int:
        """Of a sample in a batch."""
        return self.crop_bytes or self.size_bytes


def load(text_or_path: str | Path) -> Description:
    """A shipped description by its name, or one in a YAML file."""
    if str(text_or_path) in SHIPPED:
        return shipped(str(text_or_path))
    path = Path(text_or_path)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise FeedError(
            f"cannot read the description {path}: {error}; give a YAML file, or one of "
            f"{', '.join(SHIPPED)}"
        ) from error
    return parse(text, str(path))


def shipped(name: str) -> Description:
    """unet3d, resnet50 and cosmoflow, as MLPerf Storage has them."""
    if name not in SHIPPED:
        raise FeedError(f"no description is called {name!r}; shipped are {', '.join(SHIPPED)}")
    return parse(files("paceline.feed").joinpath(f"descriptions/{name}.yaml").read_text(), name)


SHIPPED: Final = ("cosmoflow", "resnet50", "unet3d")


def parse(text: str, what: str = "the description") -> Description:
    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise FeedError(f"{what} is not YAML: {error}") from error
    if not isinstance(given, Mapping):
        raise FeedError(f"{what} is {given!r}; give a mapping with {', '.join(_FIELDS)}")
    strange = [name for name in given if name not in _FIELDS]
    if strange:
        raise FeedError(f"{what} has {strange[0]!r}; allowed: {', '.join(_FIELDS)}")
    lacking = [name for name in ("name", "format", "samples", "size") if name not in given]
    if lacking:
        raise FeedError(f"{what} lacks {', '.join(lacking)}")
    try:
        return Description(**{_FIELDS[name][0]: _FIELDS[name][1](v) for name, v in given.items()})
    except (ClusterError, FeedError) as error:
        raise FeedError(f"{what}: {error}") from error


def scaled(given: Description, factor: float) -> Description:
    """Fewer samples, of the same sizes: a file holds what it held, and one batch is the least."""
    _require(factor > 0, f"the scale is {factor:g}; give a factor above 0")
    samples = max(given.batch, round(given.samples * factor))
    per_file = min(given.samples_per_file, max(1, samples // 4))
    return replace(given, samples=samples, samples_per_file=per_file)


def as_yaml(given: Description) -> dict[str, Any]:
    """What `parse` reads back as an equal description."""
    shown = {_bytes: show_size, _ns: show_duration}
    return {
        name: shown.get(read, lambda value: value)(getattr(given, field))
        for name, (field, read) in _FIELDS.items()
    }


def _require(fine: bool, otherwise: str) -> None:
    if not fine:
        raise FeedError(otherwise)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise FeedError(f"{value!r} is given where a whole number belongs")
    return value


def _bytes(value: Any) -> int:
    return size(value, "size")


def _ns(value: Any) -> int:
    return duration(value, "compute")


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FeedError(f"{value!r} is given where a share from 0 to 1 belongs")
    return float(value)


_FIELDS: Final[Mapping[str, tuple[str, Any]]] = {
    "name": ("name", str),
    "format": ("format", str),
    "samples": ("samples", _whole),
    "size": ("size_bytes", _bytes),
    "samples_per_file": ("samples_per_file", _whole),
    "spread": ("spread_bytes", _bytes),
    "compression": ("compression", str),
    "batch": ("batch", _whole),
    "compute": ("compute_ns", _ns),
    "crop": ("crop_bytes", _bytes),
    "utilisation": ("utilisation", _share),
    "seed": ("seed", _whole),
    "source": ("source", str),
}
"""Of each key of the file: the field, and what makes its value."""
