"""`Source`: a file, or one member of an archive, as a stream of plain bytes in bounded chunks."""

import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from paceline.errors import FileError

CHUNK: Final = 1 << 20
"""Bytes handed on at a time: large enough to amortise a call, small enough to stay in cache."""

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Source:
    """Something readable: a file, or a member of a tar or zip archive."""

    path: Path
    member: str = ""

    @property
    def name(self) -> str:
        return f"{self.path}:{self.member}" if self.member else str(self.path)

    def head(self, size: int = 65536) -> bytes:
        """The first bytes, unpacked: enough to tell the format."""
        found = b""
        for chunk in self.chunks():
            found += chunk
            if len(found) >= size:
                break
        return found[:size]

    def read(self) -> bytes:
        return b"".join(self.chunks())

    def chunks(self, *, salvage: bool = False) -> Iterator[bytes]:
        """The content, unpacked; a truncated or damaged one raises `FileError` at its end, or, to
        salvage what is there, just ends."""
        try:
            with self._open() as stream:
                yield from _inflated(stream)
        except (zlib.error, EOFError, tarfile.TarError, zipfile.BadZipFile) as e:
            if not salvage:
                raise FileError(
                    f"{self.name} is truncated or damaged ({e}); copy it again, leave it out and "
                    "import the other ranks, or pass --salvage to take what is there"
                ) from e
        except OSError as e:
            raise FileError(f"{self.name} cannot be read: {e.strerror or e}") from e

    def _open(self) -> IO[bytes]:
        if not self.member:
            return self.path.open("rb", buffering=0)
        if zipfile.is_zipfile(self.path):
            return io.BytesIO(zipfile.ZipFile(self.path).read(self.member))
        with tarfile.open(self.path) as archive:
            stream = archive.extractfile(self.member)
            assert stream is not None
            return io.BytesIO(stream.read())


def sources(paths: list[Path]) -> list[Source]:
    """Every file behind the given files, folders and archives, in order of name."""
    found: list[Source] = []
    for path in paths:
        if not path.exists():
            raise FileError(f"{path} does not exist; give trace files, folders or archives")
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            found += _members(file)
    return found


def _members(file: Path) -> list[Source]:
    """One source for a plain file, one for each member of an archive."""
    try:
        return _listed(file)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as e:
        raise FileError(f"{file} is a truncated or damaged archive ({e}); copy it again") from e


def _listed(file: Path) -> list[Source]:
    if _is_tar(file):
        with tarfile.open(file) as archive:
            names = sorted(m.name for m in archive if m.isfile())
        return [Source(file, name) for name in names]
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as packed:
            return [Source(file, n) for n in sorted(packed.namelist()) if not n.endswith("/")]
    return [Source(file)]


def _is_tar(file: Path) -> bool:
    """Whether a file is a tar archive, packed or not (by its content; a header is 512 bytes)."""
    try:
        with file.open("rb") as stream:
            head = stream.read(65536)
    except OSError as e:
        raise FileError(f"{file} cannot be read: {e.strerror}") from e
    if head.startswith(_GZIP):
        head = zlib.decompressobj(31).decompress(head, 512)
    return head[257:262] == b"ustar"


def _inflated(stream: IO[bytes]) -> Iterator[bytes]:
    """Unpack gzip members on the fly; pass anything else through."""
    data = stream.read(CHUNK // 8)
    if not data.startswith(_GZIP):
        while data:
            yield data
            data = stream.read(CHUNK)
        return
    inflater = zlib.decompressobj(31)
    while data or inflater.unconsumed_tail:
        data = inflater.unconsumed_tail + data
        plain = inflater.decompress(data, CHUNK)
        if plain:
            yield plain
        data = b""
        if inflater.eof:
            data = inflater.unused_data or stream.read(CHUNK // 8)
            if not data.startswith(_GZIP):
                return  # padding after the last member
            inflater = zlib.decompressobj(31)
        elif not inflater.unconsumed_tail:
            data = stream.read(CHUNK // 8)
    raise EOFError("the compressed stream ends early")
