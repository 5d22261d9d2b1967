"""How torch, NCCL, gloo and XLA spell collectives and element types, and our words for them."""

from math import ceil

from paceline.graph import Collective, DType
from paceline.graph.work import element_bytes

COLLECTIVE_NAMES: dict[str, Collective] = {
    "allreduce": Collective.ALL_REDUCE,
    "allreducecoalesced": Collective.ALL_REDUCE,
    "allreducesparse": Collective.ALL_REDUCE,
    "reducescatter": Collective.REDUCE_SCATTER,
    "reducescatterbase": Collective.REDUCE_SCATTER,
    "reducescattertensor": Collective.REDUCE_SCATTER,
    "reducescattertensorcoalesced": Collective.REDUCE_SCATTER,
    "allgather": Collective.ALL_GATHER,
    "allgatherbase": Collective.ALL_GATHER,
    "allgathercoalesced": Collective.ALL_GATHER,
    "allgatherintotensor": Collective.ALL_GATHER,
    "allgatherintotensorcoalesced": Collective.ALL_GATHER,
    "broadcast": Collective.BROADCAST,
    "reduce": Collective.REDUCE,
    "alltoall": Collective.ALL_TO_ALL,
    "alltoallv": Collective.ALL_TO_ALL,
    "alltoallbase": Collective.ALL_TO_ALL,
    "alltoallsingle": Collective.ALL_TO_ALL,
    "gather": Collective.GATHER,
    "scatter": Collective.SCATTER,
    "barrier": Collective.BARRIER,
    "send": Collective.POINT_TO_POINT,
    "recv": Collective.POINT_TO_POINT,
    "isend": Collective.POINT_TO_POINT,
    "irecv": Collective.POINT_TO_POINT,
    "sendrecv": Collective.POINT_TO_POINT,
    "collectivepermute": Collective.POINT_TO_POINT,
}
"""Spellings by torch, NCCL, gloo and XLA, without case, dashes and underscores."""


def collective_of(name: str) -> Collective:
    """The collective behind a library's spelling of its name; NONE for anything else."""
    return COLLECTIVE_NAMES.get(
        name.lower().translate(_DROPPED).removesuffix("async"), Collective.NONE
    )


_DROPPED = {ord(mark): None for mark in "-_ "}

DTYPE_NAMES: dict[str, DType] = {
    "double": DType.FLOAT64,
    "float64": DType.FLOAT64,
    "float": DType.FLOAT32,
    "float32": DType.FLOAT32,
    "half": DType.FLOAT16,
    "float16": DType.FLOAT16,
    "c10::half": DType.FLOAT16,
    "bfloat16": DType.BFLOAT16,
    "c10::bfloat16": DType.BFLOAT16,
    "float8e4m3fn": DType.FLOAT8,
    "float8e5m2": DType.FLOAT8,
    "c10::float8_e4m3fn": DType.FLOAT8,
    "c10::float8_e5m2": DType.FLOAT8,
    "c10::float8_e4m3fnuz": DType.FLOAT8,
    "c10::float8_e5m2fnuz": DType.FLOAT8,
    "c10::float4_e2m1fn_x2": DType.FLOAT4,
    "long": DType.INT64,
    "long int": DType.INT64,
    "int64": DType.INT64,
    "int": DType.INT32,
    "int32": DType.INT32,
    "short": DType.INT16,
    "short int": DType.INT16,
    "int16": DType.INT16,
    "char": DType.INT8,
    "signed char": DType.INT8,
    "int8": DType.INT8,
    "byte": DType.UINT8,
    "unsigned char": DType.UINT8,
    "uint8": DType.UINT8,
    "bool": DType.BOOL,
    "complexfloat": DType.COMPLEX64,
    "c10::complex<float>": DType.COMPLEX64,
}
"""Spellings of element types in traces, flight recorders and torch itself, in lower case."""

ELEMENT_BYTES = {dtype: ceil(element_bytes(dtype)) for dtype in DType}
"""As stored: torch keeps two of float4 in one element of a byte."""


def dtype_of(name: str) -> DType:
    return DTYPE_NAMES.get(name.removeprefix("torch.").lower(), DType.NONE)
