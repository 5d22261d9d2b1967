"""How each operation is spelled in generated C++: for numbers in double, for elements as `V`.

`V` is a vector or a single float, `S` its `Lane` of kernel_runtime.hpp; {0} and {1} are operands.
"""

from paceline.weave.layout import Reduction
from paceline.weave.ops import BinaryKind, ReduceKind, UnaryKind

BEGIN = {
    ReduceKind.SUM: "0.0",
    ReduceKind.SUM_SQUARES: "0.0",
    ReduceKind.MAX: "-HUGE_VAL",
    ReduceKind.MIN: "HUGE_VAL",
}
FOLD = {
    ReduceKind.SUM: "sum",
    ReduceKind.SUM_SQUARES: "sum",
    ReduceKind.MAX: "max",
    ReduceKind.MIN: "min",
}
NUMBER_UNARY = {
    UnaryKind.NEG: "(-{0})",
    UnaryKind.SQRT: "std::sqrt({0})",
    UnaryKind.ABS: "std::fabs({0})",
    UnaryKind.EXP: "std::exp({0})",
    UnaryKind.TANH: "std::tanh({0})",
    UnaryKind.RELU: "maximum<double>({0}, 0.0)",
    UnaryKind.IS_FINITE: "double(std::isfinite({0}))",
}
NUMBER_BINARY = {
    BinaryKind.ADD: "({0} + {1})",
    BinaryKind.SUB: "({0} - {1})",
    BinaryKind.MUL: "({0} * {1})",
    BinaryKind.DIV: "({0} / {1})",
    BinaryKind.POW: "std::pow({0}, {1})",
    BinaryKind.MAXIMUM: "maximum<double>({0}, {1})",
    BinaryKind.MINIMUM: "minimum<double>({0}, {1})",
    BinaryKind.GREATER: "double({0} > {1})",
    BinaryKind.LESS: "double({0} < {1})",
}
ELEMENT_UNARY = {
    UnaryKind.NEG: "(-{0})",
    UnaryKind.SQRT: "S::root({0})",
    UnaryKind.ABS: "S::each({0}, [](float y) {{ return std::fabs(y); }})",
    UnaryKind.EXP: "S::each({0}, [](float y) {{ return std::exp(y); }})",
    UnaryKind.TANH: "S::each({0}, [](float y) {{ return std::tanh(y); }})",
    UnaryKind.RELU: "maximum<V>({0}, S::splat(0.0f))",
    UnaryKind.IS_FINITE: "S::finite({0})",
}
ELEMENT_BINARY = {
    BinaryKind.ADD: "({0} + {1})",
    BinaryKind.SUB: "({0} - {1})",
    BinaryKind.MUL: "({0} * {1})",
    BinaryKind.DIV: "({0} / {1})",
    BinaryKind.POW: "S::pair({0}, {1}, [](float y, float z) {{ return std::pow(y, z); }})",
    BinaryKind.MAXIMUM: "maximum<V>({0}, {1})",
    BinaryKind.MINIMUM: "minimum<V>({0}, {1})",
    BinaryKind.GREATER: "({0} > {1})",
    BinaryKind.LESS: "({0} < {1})",
}


JOIN = {
    Reduction.SUM: "({0} + {1})",
    Reduction.MAX: "maximum<V>({0}, {1})",
    Reduction.MIN: "minimum<V>({0}, {1})",
}
