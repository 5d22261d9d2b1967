"""Gradients travel as signs with the mean of each sign, with error feedback. Seide et al., "1-Bit
Stochastic Gradient Descent" (2014).

A thirty-second of the bytes, gathered: it pays up to some sixty workers. Wrong where packing takes
longer than the memory's rate tells: bits are put together by several passes.
"""

from dataclasses import dataclass

from paceline.runtime.codecs import Codec
from paceline.strategies.coded import Coded


@dataclass(frozen=True)
class OneBit(Coded):
    def payload_bytes(self, count: int) -> int:
        return -(-count // 8) + 8

    def codec(self) -> Codec:
        from paceline.runtime.codecs.torch_onebit import onebit

        return onebit()
