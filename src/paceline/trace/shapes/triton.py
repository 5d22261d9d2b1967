"""Kernels that inductor generated: the operators that they replaced stand in their names.

`triton_poi_fused_add_mul_3` is pointwise (per and red reduce, tem is a template such as a product).
Their ranges carry the tensors that they were given; results are among these, so each is counted
once, and one both read and written in place twice.
"""

import re
from typing import Final

from paceline.graph.work import Elements, Family, Rows, Work
from paceline.trace.shapes.inputs import Inputs

_NAME: Final = re.compile(r"triton_(poi|per|red|for|tem|mm)_fused_?(.*?)_?\d*$")
_FAMILY: Final = {
    "poi": Family.POINTWISE,
    "for": Family.POINTWISE,
    "per": Family.REDUCTION,
    "red": Family.REDUCTION,
    "tem": Family.MATRIX,
    "mm": Family.MATRIX,
}
_FUSED: Final = (
    (re.compile(r"native_layer_norm|rms_norm|batch_norm|group_norm|rsqrt"), Family.NORM),
    (re.compile(r"softmax"), Family.SOFTMAX),
    (re.compile(r"nll_loss"), Family.LOSS),
    (re.compile(r"embedding"), Family.EMBEDDING),
)


def is_generated(name: str) -> bool:
    return _NAME.match(name) is not None


def family_of(name: str) -> Family:
    """Of reductions what they reduce for, as the fused operators' names tell."""
    found = _NAME.match(name)
    if found is None:
        return Family.OTHER
    kind = _FAMILY[found[1]]
    if kind is not Family.REDUCTION:
        return kind
    return next((family for part, family in _FUSED if part.search(found[2])), kind)


def work_of(name: str, inputs: Inputs) -> Work | None:
    """None for templates, whose arguments do not say which dimension is the inner one."""
    tensors, family = inputs.tensors(), family_of(name)
    if not tensors or family in (Family.OTHER, Family.MATRIX):
        return None
    largest = max(tensors, key=lambda tensor: tensor.count)
    steps = max(1, len([part for part in name.split("_fused_")[-1].split("_") if part.isalpha()]))
    whole = sum(tensor.stored_bytes for tensor in tensors)
    written = tensors[-1].stored_bytes
    dims = (
        Elements(largest.count, max(len(tensors) - 1, 1))
        if family is Family.POINTWISE
        else Rows(*_rows(largest.shape))
    )
    return Work(family, largest.dtype, dims, steps * largest.count, whole - written, written)


def _rows(shape: tuple[int, ...]) -> tuple[int, int]:
    columns = shape[-1] if shape else 1
    rows = 1
    for size in shape[:-1]:
        rows *= size
    return rows, columns
