"""Which strategies a page carries: as `--carry` names them, and sensible ones by default."""

from collections.abc import Iterator, Sequence

from paceline.cluster import Cluster
from paceline.graph import Axis, Graph

_WORKERS = (2, 4, 8)


def named(texts: Sequence[str]) -> tuple[str, ...]:
    """`workers=2,4;bf16` as strategies: `workers(count=2)`, `workers(count=4)`, `bf16`."""
    parts = (part.strip() for text in texts for part in text.split(";"))
    return tuple(dict.fromkeys(each for part in parts if part for each in _each(part)))


def carried_by_default(graph: Graph, cluster: Cluster | None) -> tuple[str, ...]:
    """Of a data-parallel job on a cluster: gradients in half the bytes, and other worker counts.
    Without a cluster nothing says what changed communication takes."""
    shared = any(group.axis is Axis.DATA and len(group.ranks) > 1 for group in graph.groups)
    if cluster is None or not shared:
        return ()
    now = graph.world_size
    return ("bf16", *(f"workers(count={factor * now})" for factor in _WORKERS))


def _each(part: str) -> Iterator[str]:
    """`workers=2,4+bf16` is two: each count, together with bf16."""
    head, plus, rest = part.partition("+")
    if head.startswith("workers="):
        for count in head.removeprefix("workers=").split(","):
            yield f"workers(count={count.strip()}){plus}{rest}"
    else:
        yield part
