"""What a kernel's own name and grid tell where no operator does: its family, and of some its work.

Element-wise kernels of torch say how many elements a thread handles, of which types, and how many
tensors; their grid then bounds the count. Products and reductions keep an inner dimension to
themselves: of them only the family is known.
"""

import re
from dataclasses import dataclass
from typing import Final

from paceline.graph import DType
from paceline.graph.work import Elements, Family, Launch, Work, optimizer, pointwise

_FAMILIES: Final = (
    (
        re.compile(r"flash|fmha|flex_attention|attn_fwd|attn_bwd|bwd_kernel_dk_dv|bwd_kernel_dq"),
        Family.ATTENTION,
    ),
    (re.compile(r"multi_tensor_apply|adam"), Family.OPTIMIZER),
    (re.compile(r"softmax"), Family.SOFTMAX),
    (re.compile(r"batch_norm|bn_fw|bn_bw|batchnorm"), Family.BATCH_NORM),
    (re.compile(r"_norm|norm_|layernorm|rmsnorm"), Family.NORM),
    (
        re.compile(r"fprop|dgrad|wgrad|convol|implicit_gemm|winograd|conv2d|conv_|cudnn.*conv"),
        Family.CONVOLUTION,
    ),
    (re.compile(r"gemm|gemv|cijk_|nvjet|cutlass|matmul|triton_tem|splitkreduce"), Family.MATRIX),
    (
        re.compile(r"embedding|indexselect|index_elementwise|gather|scatter|index_"),
        Family.EMBEDDING,
    ),
    (re.compile(r"nll_loss|cross_entropy"), Family.LOSS),
    (re.compile(r"sort|topk|unique|radix"), Family.SORT),
    (re.compile(r"pool|upsample|grid_sampl"), Family.POOLING),
    (re.compile(r"nchwtonhwc|nhwctonchw|copy|catarray|transpose|memset|memcpy|fill"), Family.COPY),
    (re.compile(r"reduce_kernel|triton_red|triton_per|scan"), Family.REDUCTION),
    (re.compile(r"elementwise|triton_poi|pointwise"), Family.POINTWISE),
    (re.compile(r"nccl|rccl|oneccl"), Family.COLLECTIVE),
)
"""How libraries spell their kernels; the first that fits."""

_ITEMS: Final = (
    re.compile(r"vectorized_elementwise_kernel<(\d+),"),
    re.compile(r"elementwise_kernel(?:_manual_unroll)?<(\d+), (\d+),"),
)
_TENSORS: Final = re.compile(r"(?:std::array|at::detail::Array)<char\*, (\d+)")
_TYPES: Final = (
    ("c10::BFloat16", DType.BFLOAT16),
    ("c10::Half", DType.FLOAT16),
    ("double", DType.FLOAT64),
    ("float", DType.FLOAT32),
    ("long", DType.INT64),
    ("bool", DType.BOOL),
    ("int", DType.INT32),
)
_OPAQUE: Final = re.compile(r"OpaqueType<(\d+)")
_OF_SIZE: Final = {1: DType.UINT8, 2: DType.BFLOAT16, 4: DType.FLOAT32, 8: DType.INT64}
_UNROLLED: Final = 4
"""Elements a thread of `unrolled_elementwise_kernel` handles, and a vectorised one at least."""
_CHUNK: Final = 65536
"""Elements a block of torch's `multi_tensor_apply` handles."""
_LISTS: Final = re.compile(r"TensorListMetadata<(\d+)>|TensorListScalarListMetadata<\w+, (\d+)>")


def family_of(kernel: str) -> Family:
    spelled = kernel.lower()
    return next((family for part, family in _FAMILIES if part.search(spelled)), Family.OTHER)


def type_of(kernel: str) -> DType:
    """The first element type that a kernel's template arguments name, or one of the size."""
    if sized := _OPAQUE.search(kernel):
        return _OF_SIZE.get(int(sized[1]), DType.NONE)
    found = [(at, kind) for word, kind in _TYPES if (at := kernel.find(word)) >= 0]
    return min(found)[1] if found else DType.NONE


@dataclass(frozen=True)
class Capacity:
    """For how many elements a kernel's grid has room, and how many tensors it is given."""

    elements: int
    tensors: int


def capacity_of(kernel: str, launch: Launch) -> Capacity | None:
    """None for kernels of another kind, or without a grid."""
    if not launch.blocks or "elementwise_kernel" not in kernel:
        return None
    tensors = _TENSORS.search(kernel)
    return Capacity(launch.blocks * _per_block(kernel, launch), int(tensors[1]) if tensors else 0)


def _per_block(kernel: str, launch: Launch) -> int:
    if found := _ITEMS[0].search(kernel):
        return launch.threads * max(int(found[1]), _UNROLLED)
    if found := _ITEMS[1].search(kernel):
        return int(found[1]) * int(found[2])
    return launch.threads * _UNROLLED


def work_of(kernel: str, launch: Launch) -> Work | None:
    """The work that name and grid tell; None where they do not."""
    dtype = type_of(kernel)
    if dtype is DType.NONE:
        return None
    lists = _LISTS.search(kernel)
    if lists and launch.blocks:
        depth = int(lists[1] or lists[2])
        return optimizer(Elements(launch.blocks * _CHUNK, depth), dtype, max(depth - 1, 1))
    capacity = capacity_of(kernel, launch)
    if capacity is None or not capacity.tensors:
        return None
    return pointwise(Elements(capacity.elements, capacity.tensors - 1), dtype)
