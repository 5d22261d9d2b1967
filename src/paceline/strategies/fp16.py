"""Gradients travel as IEEE half precision: 10 bits of mantissa, values up to 65,504.
Micikevicius et al., "Mixed Precision Training" (2018).

Half the bytes of float32; ranks average in 16 bits, weights and optimizer stay in 32. Wrong where
the processor has no fast conversion, and where the library adds 16-bit numbers more slowly than
32-bit ones.
"""

from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import DType
from paceline.runtime.codecs import Codec, Sharing
from paceline.strategies.coded import Coded


@dataclass(frozen=True)
class Fp16(Coded):
    sharing: ClassVar[Sharing] = Sharing.SUM
    wire: ClassVar[DType] = DType.FLOAT16
    feedback = False

    def payload_bytes(self, count: int) -> int:
        return 2 * count

    def codec(self) -> Codec:
        import torch

        from paceline.runtime.codecs.torch_casts import cast

        return cast(torch.float16)
