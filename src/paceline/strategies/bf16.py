"""Gradients travel as bfloat16: the range of float32 with 7 bits of mantissa.
Kalamkar et al., "A Study of BFLOAT16 for Deep Learning Training" (2019).

Half the bytes of float32; ranks average in 16 bits, weights and optimizer stay in 32. Wrong where
the library adds bfloat16 more slowly than float32, as some CPUs do by a detour.
"""

from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import DType
from paceline.runtime.codecs import Codec, Sharing
from paceline.strategies.coded import Coded


@dataclass(frozen=True)
class Bf16(Coded):
    sharing: ClassVar[Sharing] = Sharing.SUM
    wire: ClassVar[DType] = DType.BFLOAT16
    feedback = False

    def payload_bytes(self, count: int) -> int:
        return 2 * count

    def codec(self) -> Codec:
        import torch

        from paceline.runtime.codecs.torch_casts import cast

        return cast(torch.bfloat16)
