"""Gradients travel as 8-bit multiples of their bucket's largest magnitude, with error feedback.
Dettmers, "8-Bit Approximations for Parallelism in Deep Learning" (2016).

A quarter of the bytes, but gathered and not reduced: with more than eight workers each rank
receives more than with float32. Wrong where packing takes longer than the memory's rate tells.
"""

from dataclasses import dataclass

from paceline.runtime.codecs import Codec
from paceline.strategies.coded import Coded


@dataclass(frozen=True)
class Int8(Coded):
    def payload_bytes(self, count: int) -> int:
        return count + 4

    def codec(self) -> Codec:
        from paceline.runtime.codecs.torch_int8 import int8

        return int8()
