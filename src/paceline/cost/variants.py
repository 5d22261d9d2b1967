"""How long operators take in another variant: measured ratios of this machine, else typical ones.

Kernels of a GPU in half precision go by what they work on (`narrowed`). Where a recording does not
name the GPU, a typical ratio is Daydream's (Zhu et al., ATC 2020: products and convolutions a
third, other kernels half). Another is 8 passes over memory of 9 for batch norms that bring
their ReLU along (one pass for the moments in place of two), and 1 elsewhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from paceline.cost.narrowed import in_bfloat16
from paceline.cost.operators import OperatorClass, classes_of
from paceline.graph import NONE, Basis, Graph, LaneKind
from paceline.graph.graph import Bool
from paceline.graph.scaled import scaled, works
from paceline.graph.variants import Ratio, Variant

_HEAVY = (OperatorClass.PRODUCT, OperatorClass.CONVOLUTION, OperatorClass.ATTENTION)
TYPICAL: Mapping[tuple[Variant, LaneKind], Mapping[OperatorClass, float]] = {
    (Variant.BF16, LaneKind.STREAM): {
        kind: 1 / 3 if kind in _HEAVY else 1 / 2 for kind in OperatorClass
    },
    (Variant.RESTRUCTURED, LaneKind.THREAD): {OperatorClass.NORMALISATION: 8 / 9},
}
"""By variant and what the work runs on; 1 where nothing stands here."""


def in_variant(graph: Graph, rows: Bool, variant: Variant) -> Graph:
    """These ops in the variant, each by its operator's ratio."""
    chosen, measured = rows & works(graph), ratios_of(graph, variant)
    by_name = np.ones(len(graph.names) + 1)
    for name in np.unique(graph.ops.name[chosen]).tolist():
        ratio = measured.get(graph.names[name])
        by_name[name] = ratio.value if ratio is not None else np.nan
    factor = by_name[graph.ops.name]
    typically = chosen & np.isnan(factor)
    made = scaled(graph, chosen & ~typically, factor, Basis.MEASURED)
    return _typically(made, typically, variant)


def ratios_of(graph: Graph, variant: Variant) -> dict[str, Ratio]:
    """Measured ratios by operator."""
    return {ratio.operator: ratio for ratio in graph.facts.ratios if ratio.variant is variant}


def seen_in(graph: Graph, variant: Variant) -> Bool:
    """Ops whose operator a measurement saw in the variant."""
    known = ratios_of(graph, variant)
    of_name = np.array([*(name in known for name in graph.names), False], np.bool_)
    found: Bool = of_name[graph.ops.name]
    return found


def unmeasured(graph: Graph, rows: Bool, variant: Variant) -> tuple[str, ...]:
    """Operators among these ops that no measurement tells of, longest first."""
    known, ops = ratios_of(graph, variant), graph.ops
    chosen = rows & works(graph) & (ops.dur_ns > 0)
    took = np.bincount(ops.name[chosen], ops.dur_ns[chosen], len(graph.names))
    longest = np.argsort(-took, kind="stable")
    return tuple(graph.names[n] for n in longest if took[n] and graph.names[n] not in known)


def typical_words(graph: Graph, rows: Bool, variant: Variant) -> Iterator[str]:
    """What to say where typical ratios stand in for measured ones, or nothing does."""
    told = rows & by_work(graph, variant)
    if told.any():
        yield (
            f"{variant.value}: {told.sum():,} kernels by what they work on: forecasts and rates of "
            "the GPU, and what torch keeps in float32; casts are left out"
        )
    missing = unmeasured(graph, rows & ~told, variant)
    if missing:
        named = np.array([*(name in missing for name in graph.names), False], np.bool_)
        mine = rows & works(graph) & named[graph.ops.name]
        typical = any(part.any() and f != 1 for part, f in _typical(graph, mine, variant))
        those = missing[0] + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
        how = "typical ratios, not measured here, for"
        yield (
            f"{variant.value}: {how if typical else 'not measured here, so left as recorded:'} "
            f"{those}; run `paceline measure --for RUN --out FILE`, and predict with --calibration "
            "FILE"
        )


def _typically(graph: Graph, rows: Bool, variant: Variant) -> Graph:
    factor = np.ones(len(graph))
    for mine, each in _typical(graph, rows, variant):
        factor[mine] = each
    known = rows & by_work(graph, variant)
    if known.any():
        factor[known] = in_bfloat16(graph)[graph.ops.work[known]]
        graph = with_variant(graph, variant)
    made = scaled(graph, rows & ~known, factor, Basis.DATASHEET)
    return scaled(made, known, factor, Basis.SCALED)


def with_variant(graph: Graph, variant: Variant) -> Graph:
    """The graph, of which a device's kernels now run in the variant."""
    return replace(graph, facts=replace(graph.facts, variants=(*graph.facts.variants, variant)))


def by_work(graph: Graph, variant: Variant) -> Bool:
    """Kernels of a GPU that the recording names, in bfloat16."""
    named = variant is Variant.BF16 and bool(graph.facts.gpus or graph.facts.carried_to)
    streams = graph.lanes.kind[graph.ops.lane] == LaneKind.STREAM
    found: Bool = streams & named & (graph.ops.work != NONE)
    return found


def _typical(graph: Graph, rows: Bool, variant: Variant) -> Iterator[tuple[Bool, float]]:
    """These ops, by the ratio that is typical of them."""
    kinds, lanes = classes_of(graph), graph.lanes.kind[graph.ops.lane]
    for kind in np.unique(kinds[rows]).tolist():
        for lane in np.unique(lanes[rows]).tolist():
            table = TYPICAL.get((variant, LaneKind(lane)), {})
            yield rows & (kinds == kind) & (lanes == lane), table.get(OperatorClass(kind), 1.0)
