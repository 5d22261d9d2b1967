"""Collectives among the GPUs of one host or NVLink domain.

Small messages cost steps of a low-latency protocol (LL, 8 bytes of which 4 are data), large ones
run at a share of the link. An all-reduce carries 2 (n-1)/n of its bytes over each link, gather,
scatter and all-to-all (n-1)/n of them; where a switch adds up (NVLS) the learned part knows it.
`size_bytes` are those of the larger buffer. GPUs behind PCIe share their host's paths, so each gets
less the more there are.
"""

from typing import Final

import numpy as np

from paceline.cost.errors import CostError
from paceline.cost.fit import Coefficient
from paceline.cost.forecast.likeness import of_links
from paceline.cost.forecast.method import Estimate, ForecastQuestion, Method, Values, joined, logs
from paceline.graph.kinds import Collective

CALLS: Final = (
    Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL,
)  # fmt: skip

_COEFFICIENTS: Final = (
    Coefficient("launch_s", 6e-6, 0.7),
    Coefficient("step_s", 1.2e-6, 0.7),
    Coefficient("link", 0.8, 0.15, 1.0),
    Coefficient("low_latency", 0.25, 0.5, 1.0),
    Coefficient("protocol_s", 12e-6, 0.7),
    Coefficient("host_bytes_per_s", 6e9, 0.7),
    Coefficient("overlap", 2.0, 0.3),
)
PCIE_BYTES_PER_S: Final = 64e9
"""Links up to this are PCIe: all GPUs share the host's memory and its paths."""


def _estimate(question: ForecastQuestion, values: Values) -> Estimate:
    dims, sheet = question.dims, question.sheet
    if not sheet.link_bytes_per_s:
        raise CostError(f"device {sheet.name} has no link to its neighbours; give `link: 450GB/s`")
    call, gpus, size = dims["call"], dims["gpus"], dims["size_bytes"]
    reduces = call == 0
    sent = size * (gpus - 1) / gpus * np.where(reduces, 2, 1)
    steps = np.where(reduces, 2, 1) * np.where(call == 3, 1, gpus - 1)
    link = np.float32(sheet.link_bytes_per_s * values["link"])
    slow = sheet.link_bytes_per_s <= PCIE_BYTES_PER_S
    if slow:
        link = np.float32(values["host_bytes_per_s"]) / np.maximum(gpus - 1, 1) ** 2 * 4
    quick = steps * np.float32(values["step_s"]) + sent / (link * np.float32(values["low_latency"]))
    bulk = np.float32(values["protocol_s"]) + sent / link
    work = 1 / joined(values["overlap"] * 2, 1 / quick, 1 / bulk)
    launch = np.full_like(work, values["launch_s"])
    which = (call[:, None] == np.arange(len(CALLS), dtype=np.float32)).astype(np.float32)
    bulky = logs(sent / link / launch)
    features = [
        logs(gpus, size, work / launch, quick / bulk),
        bulky, bulky**2, which * logs(gpus), which * bulky, which,
        np.stack([dims["version"], dims["element_bytes"]], axis=1),
    ]  # fmt: skip
    return Estimate(work + launch, np.concatenate(features, axis=1).astype(np.float32))


DOMAIN = Method(
    "domain",
    ("call", "gpus", "size_bytes", "version", "element_bytes"),
    _COEFFICIENTS,
    _estimate,
    of_links,
)
