"""What class of work an operator is, by the name that torch gives it or a library its kernel."""

from enum import IntEnum
from functools import lru_cache

import numpy as np

from paceline.graph import Graph
from paceline.graph.graph import Bool, UInt8


class OperatorClass(IntEnum):
    """How an operator spends its time."""

    OTHER = 0
    PRODUCT = 1  # of matrices
    CONVOLUTION = 2
    ATTENTION = 3  # fused products and softmax
    NORMALISATION = 4
    POINTWISE = 5
    POOLING = 6
    LAYOUT = 7  # brings channels to another place, as part of a library's convolution


FUSIBLE = (OperatorClass.NORMALISATION, OperatorClass.POINTWISE)
"""What compilers put together with its neighbours."""

_NAMES = {
    OperatorClass.PRODUCT: "addmm mm bmm baddbmm addbmm mv addmv mkldnn_linear",
    OperatorClass.CONVOLUTION: (
        "mkldnn_convolution convolution_backward thnn_conv2d _slow_conv2d_forward "
        "_slow_conv2d_backward cudnn_convolution miopen_convolution"
    ),
    OperatorClass.ATTENTION: (
        "_scaled_dot_product_flash_attention_for_cpu "
        "_scaled_dot_product_flash_attention_for_cpu_backward"
    ),
    OperatorClass.NORMALISATION: (
        "native_batch_norm native_batch_norm_backward native_layer_norm native_layer_norm_backward "
        "native_group_norm native_group_norm_backward _softmax _softmax_backward_data _log_softmax "
        "_log_softmax_backward_data cudnn_batch_norm cudnn_batch_norm_backward"
    ),
    OperatorClass.POINTWISE: (
        "add sub mul div add_ mul_ neg exp tanh sigmoid clamp_min clamp_min_ threshold_backward "
        "gelu gelu_backward silu silu_backward tanh_backward sigmoid_backward hardtanh where "
        "native_dropout native_dropout_backward masked_fill leaky_relu leaky_relu_backward"
    ),
    OperatorClass.POOLING: (
        "mean avg_pool2d avg_pool2d_backward max_pool2d_with_indices "
        "max_pool2d_with_indices_backward _adaptive_avg_pool2d _adaptive_avg_pool2d_backward"
    ),
}
OPERATORS = {f"aten::{name}": kind for kind, names in _NAMES.items() for name in names.split()}
"""Torch's operators that do the work themselves, whoever called them."""

_KERNELS = (
    ("flash", OperatorClass.ATTENTION),
    ("fmha", OperatorClass.ATTENTION),
    ("gemm", OperatorClass.PRODUCT),
    ("cutlass", OperatorClass.PRODUCT),
    ("cublas", OperatorClass.PRODUCT),
    ("nvjet", OperatorClass.PRODUCT),
    ("fprop", OperatorClass.CONVOLUTION),
    ("dgrad", OperatorClass.CONVOLUTION),
    ("wgrad", OperatorClass.CONVOLUTION),
    ("convolve", OperatorClass.CONVOLUTION),
    ("winograd", OperatorClass.CONVOLUTION),
    ("norm", OperatorClass.NORMALISATION),
    ("bn_fw", OperatorClass.NORMALISATION),
    ("bn_bw", OperatorClass.NORMALISATION),
    ("softmax", OperatorClass.NORMALISATION),
    ("pool", OperatorClass.POOLING),
    ("elementwise", OperatorClass.POINTWISE),
)
"""How libraries spell the kernels of GPUs: there is no other word on what they do."""


_LAYOUTS = ("nchwToNhwc", "nhwcToNchw")
"""How cuDNN spells what it runs before and behind a convolution, in a namespace of its own."""


@lru_cache(maxsize=65536)
def operator_class(name: str) -> OperatorClass:
    """Of an operator with its library in front of its name or without, or of a kernel."""
    known = OPERATORS.get(name if "::" in name else f"aten::{name}")
    if any(part in name for part in _LAYOUTS):
        return OperatorClass.LAYOUT
    if known is not None or "::" in name:
        return known or OperatorClass.OTHER
    spelled = name.lower()
    found = (kind for part, kind in _KERNELS if part in spelled)
    return next(found, OperatorClass.OTHER)


def classes_of(graph: Graph) -> UInt8:
    """The class of each op."""
    of_name = np.array([*map(operator_class, graph.names), OperatorClass.OTHER], np.uint8)
    return of_name[graph.ops.name]


def of_class(graph: Graph, *wanted: OperatorClass) -> Bool:
    return np.isin(classes_of(graph), wanted)
