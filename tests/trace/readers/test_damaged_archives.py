"""Archives that are none: a clear error, whatever they begin with."""

from pathlib import Path

import pytest

from paceline.errors import FileError
from paceline.trace.readers.source import sources


@pytest.mark.parametrize(
    "data",
    [bytes(257) + b"ustar", b"\x1f\x8b" + bytes(20), b"PK\x05\x06" + b"\xff" * 18],
    ids=["tar", "gzip", "zip"],
)
def test_a_damaged_archive_is_named(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "traces.bin"
    file.write_bytes(data)
    with pytest.raises(FileError, match=r"traces\.bin is .*truncated or damaged"):
        [source.read() for source in sources([file])]
