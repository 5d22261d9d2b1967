"""Formats: what was written is read, in any order, and what was damaged is seen."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.feed.errors import FeedError
from paceline.feed.formats import ARRAYS, COMPRESSIONS, FORMATS, format_of
from paceline.feed.formats.crc32c import crc32c
from paceline.feed.formats.example import example, features
from paceline.feed.formats.tfrecord import masked

NEEDED = {"hdf5": pytest.mark.needs("h5py"), "jpeg": pytest.mark.needs("pillow"),
          "png": pytest.mark.needs("pillow")}  # fmt: skip


def each(names: tuple[str, ...]) -> list[object]:
    return [pytest.param(name, marks=NEEDED.get(name, ())) for name in names]


def samples() -> list[np.ndarray]:
    draws = np.random.default_rng(4)
    return [
        draws.integers(0, 255, 700, np.uint8),
        draws.random((3, 5), np.float32),
        np.array([-3, 2**40], np.int64),
        np.float64(2.5) * np.ones(()),
    ]


def picture() -> np.ndarray:
    return np.tile(np.arange(48, dtype=np.uint8)[:, None, None], (1, 32, 3))


@pytest.mark.parametrize("name", each(ARRAYS))
def test_arrays_come_back_as_they_were_in_any_order(name: str, tmp_path: Path) -> None:
    for compression in COMPRESSIONS[name]:
        path = tmp_path / f"{name}-{compression}"
        format_of(name).write(path, samples(), compression)
        with path.open("rb") as file:
            there = format_of(name).open(file)
            assert len(there) == 4
            for place in (2, 0, 3, 1):
                found, wanted = there[place], samples()[place]
                assert found.dtype == wanted.dtype
                assert found.shape == wanted.shape
                assert (found == wanted).all()


@pytest.mark.needs("pillow")
def test_a_png_keeps_every_pixel_and_a_jpeg_about(tmp_path: Path) -> None:
    for name, off in (("png", 0), ("jpeg", 12)):
        path = tmp_path / name
        format_of(name).write(path, [picture()])
        with path.open("rb") as file:
            found = format_of(name).open(file)[0]
        assert found.shape == picture().shape
        assert np.abs(found.astype(int) - picture()).max() <= off


@pytest.mark.needs("pillow")
def test_an_array_that_is_no_image_is_refused_by_formats_of_images(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="one image of height x width x 3 bytes, not float64"):
        format_of("png").write(tmp_path / "a.png", [np.ones((4, 4))])


@pytest.mark.parametrize("name", each(tuple(FORMATS)))
def test_a_file_that_ends_too_early_raises_what_its_format_says(name: str, tmp_path: Path) -> None:
    kind, path = format_of(name), tmp_path / "whole"
    kind.write(path, [picture()] if kind.images else samples()[:1])
    (tmp_path / "half").write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with (tmp_path / "half").open("rb") as file, pytest.raises(kind.broken):
        kind.open(file)[0]


@pytest.mark.parametrize("name", each(("npz", "hdf5", "parquet", "tfrecord")))
def test_a_flipped_byte_of_a_sample_is_seen(name: str, tmp_path: Path) -> None:
    kind, path = format_of(name), tmp_path / "file"
    data = np.arange(5000, dtype=np.uint16)
    kind.write(path, [data], "gzip" if "gzip" in COMPRESSIONS[name] else "none")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)
    with path.open("rb") as file, pytest.raises(kind.broken):
        assert (kind.open(file)[0] == data).all() is None


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"") == 0
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA


@given(st.binary(max_size=64), st.integers(0, 4000))
@settings(max_examples=60, deadline=None)
def test_stretches_and_single_bytes_give_one_checksum(head: bytes, length: int) -> None:
    data = head + bytes(i * 7 & 0xFF for i in range(length))
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    assert crc32c(data) == register ^ 0xFFFFFFFF


def test_a_record_is_framed_as_tensorflow_does(tmp_path: Path) -> None:
    """Length, its checksum, the example, its checksum; masks as in TensorFlow's sources."""
    path = tmp_path / "a.tfrecord"
    format_of("tfrecord").write(path, [np.arange(3, dtype=np.uint8)])
    content = path.read_bytes()
    length, crc = struct.unpack("<QI", content[:12])
    assert len(content) == 12 + length + 4
    assert crc == masked(crc32c(content[:8]))
    assert struct.unpack("<I", content[-4:])[0] == masked(crc32c(content[12:-4]))


def test_an_example_is_the_message_that_protobuf_makes() -> None:
    protobuf = pytest.importorskip("google.protobuf")
    assert protobuf.__version__
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="example.proto", syntax="proto3")
    repeated, nested = 3, 11  # LABEL_REPEATED, TYPE_MESSAGE

    def message(name: str, *rows: tuple[str, int, int, int, str]) -> None:
        made = file.message_type.add(name=name)
        for field, place, label, kind, kind_name in rows:
            made.field.add(name=field, number=place, label=label, type=kind)
            if kind_name:
                made.field[-1].type_name = kind_name

    message("BytesList", ("value", 1, repeated, 12, ""))
    message("FloatList", ("value", 1, repeated, 2, ""))
    message("Int64List", ("value", 1, repeated, 3, ""))
    message("Feature", ("bytes_list", 1, 1, nested, ".BytesList"),
            ("float_list", 2, 1, nested, ".FloatList"),
            ("int64_list", 3, 1, nested, ".Int64List"))  # fmt: skip
    message("Entry", ("key", 1, 1, 9, ""), ("value", 2, 1, nested, ".Feature"))
    message("Features", ("feature", 1, repeated, nested, ".Entry"))
    message("Example", ("features", 1, 1, nested, ".Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("Example"))
    made = kind.FromString(example({"data": b"\x00\xff", "shape": (3, -1, 2**40)}))
    entries = {each.key: each.value for each in made.features.feature}
    assert entries["data"].bytes_list.value == [b"\x00\xff"]
    assert list(entries["shape"].int64_list.value) == [3, -1, 2**40]
    entries["shape"].float_list.value.extend([1.5, -2.0])
    found = features(memoryview(made.SerializeToString()))
    assert bytes(found["data"]) == b"\x00\xff"


def test_a_broken_message_is_no_example() -> None:
    whole = example({"data": b"abc"})
    for wrong in (whole[:-1], b"\x0f\x01", b"\xff" * 12):
        with pytest.raises(ValueError, match="protobuf"):
            features(memoryview(wrong))
