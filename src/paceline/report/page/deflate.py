"""`deflated`: one zlib stream, pressed on all cores.

The data are cut into pieces. Each is pressed with the end of the one before it as its dictionary
and ends at a whole byte, so that the pieces, one behind the other, are one stream, larger than that
of a single pass by some bytes for each piece.
"""

import os
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Final

_PIECE: Final = 1 << 20
_WINDOW: Final = 1 << zlib.MAX_WBITS  # how far back deflate looks
_HEADER: Final = b"\x78\x9c"  # deflate with that window


def deflated(data: bytes, level: int) -> bytes:
    """As `zlib.decompress`, and any other reader of zlib streams, reads it."""
    begins = range(0, max(1, len(data)), _PIECE)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pieces = list(pool.map(lambda begin: _piece(data, begin, level), begins))
    return b"".join([_HEADER, *pieces, struct.pack(">I", zlib.adler32(data))])


def _piece(data: bytes, begin: int, level: int) -> bytes:
    end = begin + _PIECE
    press = zlib.compressobj(
        level, wbits=-zlib.MAX_WBITS, zdict=data[max(0, begin - _WINDOW) : begin]
    )
    how = zlib.Z_SYNC_FLUSH if end < len(data) else zlib.Z_FINISH
    return press.compress(data[begin:end]) + press.flush(how)
