"""Forecasts per second in a batch of columns, beside the roofline alone on the same columns.

Run interleaved: a million matrix products, and as many vectors, asked of
the shipped constants for a device that was not measured (an H100 in float32).
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # forecasts share chunks out themselves

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402
from paceline.cluster.files import device  # noqa: E402
from paceline.cost.forecast import ForecastQuestion, Kind, ask, keys, sheet_of, shipped  # noqa: E402
from paceline.cost.forecast.elements import ELEMENTS  # noqa: E402
from paceline.cost.forecast.product import PRODUCT  # noqa: E402
from paceline.graph.kinds import DType  # noqa: E402


def main() -> None:
    options = measure.parser(__doc__ or "").parse_args()
    count = 100_000 if options.quick else 1_000_000
    sheet, constants = sheet_of(device("h100")), shipped()
    rng = np.random.default_rng(0)

    def drawn(most: float) -> np.ndarray:
        return np.exp(rng.uniform(0, np.log(most), count)).astype(np.float32)

    products = ForecastQuestion(
        {"b": np.ones(count, np.float32), "m": drawn(2e4), "n": drawn(2e4), "k": drawn(2e4)},
        DType.BFLOAT16, sheet,
    )  # fmt: skip
    elements = drawn(1e9)
    vectors = ForecastQuestion(
        {"count": elements, "inputs": np.ones_like(elements), "size_bytes": 8 * elements,
         "operator": np.full_like(elements, -1)},
        DType.FLOAT32, sheet,
    )  # fmt: skip
    kinds = {
        name: Kind(method, keys(task, question.dtype, sheet.vendor))
        for name, method, task, question in (
            ("products", PRODUCT, "linear", products),
            ("vectors", ELEMENTS, "pointwise", vectors),
        )
    }

    def roofline() -> None:
        m, n, k = (products.dims[c] for c in "mnk")
        np.maximum(2 * m * n * k / 989e12, 2 * (m * k + k * n + m * n) / 3.35e12)

    times = measure.interleave(
        {
            "products": lambda: ask(kinds["products"], products, constants),
            "vectors": lambda: ask(kinds["vectors"], vectors, constants),
            "roofline": roofline,
        },
        rounds=3 if options.quick else 5,
    )
    rates = {name: count / float(np.median(one["wall"])) for name, one in times.items()}
    figures = {
        "forecasts_per_s": round(2 * count / sum(count / rates[n] for n in kinds)),
        **{f"{name}_per_s": round(rate) for name, rate in rates.items()},
        "rows": count,
    }
    measure.report("speed/kernels", figures, options)


if __name__ == "__main__":
    main()
