"""What compares rows with themselves: sorts, the largest k, unique and nonzero elements.

Radix sorts pass over the data several times; one reading and one writing is counted, the least.
"""

from collections.abc import Callable, Mapping
from typing import Final

from paceline.graph import DType
from paceline.graph.work import Family, Rows, Work
from paceline.graph.work.sizes import bytes_of
from paceline.trace.shapes.inputs import Inputs

_NAMES: Final = (
    "sort argsort topk kthvalue unique _unique2 unique_consecutive unique_dim nonzero "
    "masked_select bincount histc searchsorted bucketize multinomial isin"
).split()


def _sorted(inputs: Inputs) -> Work:
    tensor = inputs.tensor(0)
    columns = tensor.shape[-1] if tensor.shape else 1
    rows = Rows(tensor.count // max(columns, 1), columns)
    written = tensor.stored_bytes + bytes_of(tensor.count, DType.INT64)
    return Work(Family.SORT, tensor.dtype, rows, tensor.count, tensor.stored_bytes, written)


RULES: Final[Mapping[str, Callable[[Inputs], Work]]] = {f"aten::{name}": _sorted for name in _NAMES}
