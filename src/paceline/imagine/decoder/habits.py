"""What a job computes in, and what its framework does beside the degrees."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from paceline.graph.kinds import DType


class Precision(Enum):
    """In which types matrix products run; the value is what users write."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"  # one scale per tensor, from earlier steps (delayed)
    FP8_CURRENT = "fp8-cs"  # one scale per tensor, of the tensor itself
    FP8_BLOCK = "fp8-mx"  # one scale per block of it
    FP4 = "nvfp4"

    @property
    def dtype(self) -> DType:
        return _DTYPES[self]

    @property
    def narrow(self) -> bool:
        """Whether operands are cast to fewer bits than they are kept in."""
        return self.dtype in (DType.FLOAT8, DType.FLOAT4)

    @property
    def kept(self) -> DType:
        """The type of what is not an operand of a product."""
        return DType.BFLOAT16 if self.narrow else self.dtype


_DTYPES: Final = {
    Precision.FP32: DType.FLOAT32,
    Precision.FP16: DType.FLOAT16,
    Precision.BF16: DType.BFLOAT16,
    Precision.FP8: DType.FLOAT8,
    Precision.FP8_CURRENT: DType.FLOAT8,
    Precision.FP8_BLOCK: DType.FLOAT8,
    Precision.FP4: DType.FLOAT4,
}


class Fusion(Enum):
    """Who joins what works element by element into fewer kernels."""

    EAGER = "eager"  # nobody
    COMPILED = "compiled"  # torch.compile, layer by layer
    LIBRARY = "library"  # hand-written kernels (Transformer Engine)


class Selective(Enum):
    """What selective recomputation computes again."""

    ATTENTION = "attention"  # scores and what follows them up to the context
    LIGHT = "light"  # norms, experts' activations, latent attention's way up (Megatron-Core)
    HALF = "half"  # every other product, and what works element by element (torchtitan)


@dataclass(frozen=True)
class Habits:
    """What a framework does beside the degrees.

    `softmax_by_four`: where attention writes its scores, one kernel scales, masks and normalises
    them only where a rank's sequences times heads divide by four and keys are no more than 2,048
    (Megatron-LM's fused softmax); else five do, in float32.
    `overlap_gradients`: gradients are reduced, and sharded weights gathered, beside the passes.
    Plain replicas reduce them in buckets of `bucket_bytes`; 0: layer by layer. `overlap_tensor`:
    asynchronous tensor parallelism, collectives cut up beside their product. `shares_words`: tensor
    ranks share embedding and output; `cuts_messages`: they share what goes from stage to stage.
    `wide_weights`: weights are kept in float32 and gathered in 16 bits (FSDP2), rather than kept in
    16 bits with a float32 copy in the optimizer (Megatron-LM). `recompute_some`: some layers of a
    chunk may be recomputed in whole and others not. `gradient_bytes` is what is kept and reduced
    per parameter; 4 is float32, to which products add. `host_ns` is what its host spends for each
    kernel that is counted here, of which a framework starts one or several; `lag_ns` is how long
    the device waits for each, beside its work. `factor` is by how much its kernels usually take
    longer than those of the tables: a middle value of what published runs show. `kept` is by how
    much more a layer keeps for its backward pass than is counted here. `outside_bytes` are what no
    allocator counts: context, libraries and NCCL's buffers.
    """

    name: str
    fusion: Fusion = Fusion.LIBRARY
    selective: Selective = Selective.ATTENTION
    fused_attention: bool = True
    softmax_by_four: bool = False
    sequence_parallel: bool = True
    overlap_gradients: bool = True
    overlap_tensor: bool = True
    overlap_messages: bool = True
    wide_weights: bool = False
    gradient_bytes: float = 4.0
    recompute_some: bool = True
    shares_words: bool = True
    cuts_messages: bool = True
    bucket_bytes: int = 0
    host_ns: float = 5_000.0
    lag_ns: float = 0.0
    factor: float = 1.0
    kept: float = 1.0
    outside_bytes: int = 3 * 2**30


MEGATRON: Final = Habits("megatron", selective=Selective.LIGHT, factor=1.2)
EARLY_MEGATRON: Final = Habits(
    "megatron-2021",
    fused_attention=False,
    softmax_by_four=True,
    sequence_parallel=False,
    overlap_gradients=False,
    overlap_tensor=False,
    overlap_messages=False,
    gradient_bytes=2.0,
    host_ns=70_000.0,
    lag_ns=30_000.0,  # both seen in the smaller of vTrain's measured jobs
)
TORCHTITAN: Final = Habits(
    "torchtitan",
    Fusion.EAGER,
    Selective.HALF,
    overlap_tensor=False,
    wide_weights=True,
    recompute_some=False,
    factor=1.4,
)
TORCHTITAN_COMPILED: Final = replace(TORCHTITAN, name="torchtitan-compile", fusion=Fusion.COMPILED)
TORCH: Final = replace(
    TORCHTITAN,
    name="torch",
    selective=Selective.ATTENTION,
    sequence_parallel=False,
    recompute_some=True,
    shares_words=False,
    cuts_messages=False,
    bucket_bytes=25 * 2**20,
)
"""PyTorch alone: FSDP2 or DDP, plain tensor parallelism, `torch.distributed.pipelining`,
`checkpoint` around whole layers."""
PROCESSOR_BYTES: Final = 300 * 2**20
"""What a process that has loaded torch holds beside its tensors, where it trains on a processor."""
HABITS: Final = {
    made.name: made for made in (MEGATRON, EARLY_MEGATRON, TORCHTITAN, TORCHTITAN_COMPILED, TORCH)
}
