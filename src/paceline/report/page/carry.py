"""Which strategies a page carries: as `--carry` names them, and sensible ones by default."""

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields

from paceline.cluster import Cluster
from paceline.graph import Axis, Graph
from paceline.strategies import brief, kind_of, known

_WORKERS = (2, 4, 8)
_SETTINGS = 4  # of a strategy whose settings were left open


def named(texts: Sequence[str], graph: Graph) -> tuple[str, ...]:
    """`workers=2,4;bf16;buckets` as strategies: `workers(count=2)`, `workers(count=4)`, `bf16`, and
    some sizes of buckets that are worth trying on this job."""
    parts = (part.strip() for text in texts for part in text.split(";"))
    every = (each for part in parts if part for each in _each(part))
    return tuple(dict.fromkeys(one for each in every for one in _settled(each, graph)))


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


def _settled(text: str, graph: Graph) -> Iterator[str]:
    """The text itself, or, of a strategy's bare name that needs settings, some of its choices, from
    the first to the last. What is not known stays, for the page to say so."""
    if text not in known() or not _needs_settings(text):
        yield text
        return
    choices = tuple(kind_of(text).choices(graph))
    count = min(_SETTINGS, len(choices))
    if not count:
        yield text
    for number in range(count):
        yield brief(choices[number * (len(choices) - 1) // max(1, count - 1)])


def _needs_settings(name: str) -> bool:
    kind = kind_of(name)
    return any(
        f.default is MISSING and f.default_factory is MISSING
        for f in fields(kind)  # type: ignore[arg-type]
    )
