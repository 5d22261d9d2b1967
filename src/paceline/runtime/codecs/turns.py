"""`Turns`: which exchange of its bucket each is, and what the bucket holds."""

from typing import Any

from paceline.runtime.codecs.codec import Turn


class Turns:
    """Counts the exchanges of each of DDP's buckets."""

    def __init__(self) -> None:
        self._done: dict[int, int] = {}

    def next(self, bucket: Any) -> Turn:
        index, shapes = bucket.index(), tuple(tuple(p.shape) for p in bucket.parameters())
        step = self._done.get(index, 0)
        self._done[index] = step + 1
        return Turn(index, step, shapes)
