"""Parquet: a row per sample with its bytes, shape and type, each in a row group of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from paceline.feed.formats.format import Array, Format, Samples, from_bytes


class Parquet(Format):
    name: ClassVar[str] = "parquet"
    suffix: ClassVar[str] = ".parquet"
    package: ClassVar[str] = "pyarrow"
    compressions: ClassVar[tuple[str, ...]] = ("gzip", "zstd", "snappy")

    def write(self, path: Path, samples: Sequence[Array], compression: str = "none") -> None:
        arrow, parquet = self.library(), self.library("pyarrow.parquet")
        table = arrow.table(
            {
                "data": arrow.array([each.tobytes() for each in samples], arrow.large_binary()),
                "shape": arrow.array([list(each.shape) for each in samples],
                                     arrow.list_(arrow.int64())),
                "dtype": [each.dtype.str for each in samples],
            }
        )  # fmt: skip
        parquet.write_table(
            table, path, row_group_size=1, compression=compression, use_dictionary=False,
            write_page_checksum=True, write_statistics=False,
        )  # fmt: skip

    def open(self, file: BinaryIO) -> Samples:
        parquet = self.library("pyarrow.parquet")
        return _Rows(parquet.ParquetFile(file, page_checksum_verification=True))


class _Rows:
    def __init__(self, file: Any) -> None:
        self.file = file

    def __len__(self) -> int:
        return int(self.file.num_row_groups)

    def __getitem__(self, place: int) -> Array:
        row = self.file.read_row_group(place, use_threads=False)
        data = row.column("data").chunk(0)[0].as_buffer()
        return from_bytes(data, row.column("dtype")[0].as_py(), row.column("shape")[0].as_py())
