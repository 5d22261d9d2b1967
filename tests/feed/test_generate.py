"""Descriptions and data sets: strict, sized to the disk, gone on with where they stopped."""

import shutil
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from paceline.feed import (
    Description,
    FeedError,
    cached,
    fitted,
    generate,
    load,
    open_data,
    scaled,
    shipped,
)
from paceline.feed.cached import cached_share, drop, warm
from paceline.feed.description import SHIPPED, parse
from paceline.feed.generate import sizes_of
from paceline.feed.reader import Reader

SMALL = Description("small", "raw", samples=10, size_bytes=4000, samples_per_file=3, batch=2)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_description_names_its_source_and_what_is_asked_for(name: str) -> None:
    given = shipped(name)
    assert given.source.startswith("MLPerf Storage")
    assert given.utilisation >= 0.7
    assert given.compute_ns > 0
    assert scaled(given, 1e-9).samples == given.batch


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1", "give a mapping"),
        ("{name: a, format: npz, samples: 1, size: 1MB, speed: 3}", "has 'speed'; allowed"),
        ("{name: a, format: npz}", "lacks samples, size"),
        ("{name: a, format: zip, samples: 1, size: 1MB}", "format is 'zip'; known: npz"),
        ("{name: a, format: raw, samples: 1, size: 1MB, compression: gzip}", "compression of raw"),
        ("{name: a, format: png, samples: 4, samples_per_file: 2, size: 1MB}", "holds one image"),
        ("{name: a, format: npz, samples: 0, size: 1MB}", "samples is 0"),
        ("{name: a, format: npz, samples: 1.5, size: 1MB}", "whole number"),
        ("{name: a, format: npz, samples: 1, size: 1 meter}", "units"),
    ],
)
def test_a_description_that_cannot_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(FeedError, match=message):
        parse(text)


def test_a_description_that_is_not_there_names_the_shipped_ones() -> None:
    with pytest.raises(FeedError, match="cosmoflow, resnet50, unet3d"):
        load("nowhere.yaml")


def test_sizes_spread_as_described_and_are_never_next_to_nothing() -> None:
    sizes = np.array(sizes_of(replace(SMALL, samples=4000, size_bytes=10000, spread_bytes=4000)))
    assert sizes.mean() == pytest.approx(10000, rel=0.03)
    assert sizes.std() == pytest.approx(4000, rel=0.1)
    assert sizes.min() >= 1000


def test_a_data_set_is_written_once_and_read_whole(tmp_path: Path) -> None:
    made = generate(SMALL, tmp_path / "data")
    assert [path.name for path in made.files] == [f"small-{n:07d}.bin" for n in range(4)]
    assert open_data(tmp_path / "data") == made
    reader = Reader(made)
    found = [reader.fetch(place) for place in range(10)]
    assert [each.sample.nbytes for each in found] == list(sizes_of(SMALL))
    assert all(each.damaged is None for each in found)
    assert sum(each.cost.read_bytes for each in found) >= 40000
    reader.close()


def test_an_interrupted_generation_goes_on_and_makes_the_same(tmp_path: Path) -> None:
    whole = generate(SMALL, tmp_path / "whole")
    part = generate(SMALL, tmp_path / "part")
    part.files[2].unlink()
    (tmp_path / "part" / "dataset.json").unlink()
    with pytest.raises(FeedError, match="was not finished; generate it again"):
        open_data(tmp_path / "part")
    generate(SMALL, tmp_path / "part")
    for a, b in zip(whole.files, part.files):
        assert a.read_bytes() == b.read_bytes()


def test_a_folder_with_another_data_set_is_left_alone(tmp_path: Path) -> None:
    generate(SMALL, tmp_path)
    with pytest.raises(FeedError, match="holds another data set"):
        generate(replace(SMALL, samples=11), tmp_path)


def test_a_disk_too_small_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=20_000))
    with pytest.raises(FeedError, match=r"nothing was written\. Give a smaller --scale"):
        generate(SMALL, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_data_set_can_be_as_large_as_half_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = SimpleNamespace(free=100_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    large = replace(SMALL, samples=1000, samples_per_file=1)
    wanted = fitted(large, tmp_path / "data")
    assert wanted.samples == round(50_000 / (4000 + 4096))
    assert fitted(SMALL, tmp_path / "data").samples < SMALL.samples
    part = generate(wanted, tmp_path / "data")
    part.files[2].unlink()
    free.free = 60_000
    assert fitted(large, tmp_path / "data") == wanted, "it goes on with what was begun"
    free.free = 10**9
    assert fitted(large, tmp_path / "elsewhere") == large


def test_a_damaged_sample_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    made = generate(replace(SMALL, format="tfrecord", samples_per_file=1), tmp_path)
    content = bytearray(made.files[4].read_bytes())
    content[1000] ^= 1
    made.files[4].write_bytes(content)
    reader = Reader(made)
    found = [reader.fetch(place) for place in range(10)]
    reader.close()
    assert [at for at, each in enumerate(found) if each.sample is None] == [4]
    assert found[4].damaged is not None
    assert found[4].damaged.file == "small-0000004.tfrecord"
    assert "checksum" in found[4].damaged.why


@pytest.mark.needs("linux")
def test_files_leave_the_cache_and_come_back(tmp_path: Path) -> None:
    """On a file system in memory nothing can leave, so this asks the disk's own."""
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 20))
    warm([path])
    assert cached_share([path]) == 1.0
    drop([path])
    left = cached_share([path])
    assert left in (0.0, 1.0)
    time.sleep(0.1)
    assert cached_share([path]) == left, "looking brings nothing back"


def test_a_machine_whose_cache_may_not_be_dropped_says_what_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "_DROP", tmp_path / "nowhere" / "drop_caches")
    with pytest.raises(FeedError, match="run as root, or drop the data set's own files"):
        drop([], whole=True)
