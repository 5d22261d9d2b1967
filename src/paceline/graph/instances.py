"""The law of instances: the members of one collective or message fit together."""

import numpy as np

from paceline.errors import GraphError
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE, Collective, DType, OpKind

_ALIKE = ("kind", "collective", "size_bytes", "dtype", "group")


def check_instances(graph: Graph) -> None:
    """Collectives are on every rank of their group once, alike; messages have two ends."""
    members = np.flatnonzero(graph.ops.instance != NONE)
    if not len(members):
        return
    members = members[np.argsort(graph.ops.instance[members], kind="stable")]
    _check_kinds(graph, members)
    collective = graph.ops.kind[members] == OpKind.COLLECTIVE
    _check_messages(graph, members[~collective])
    _check_collectives(graph, members[collective])


def _check_kinds(graph: Graph, members: Int64) -> None:
    kinds = graph.ops.kind[members]
    joined = (OpKind.COLLECTIVE, OpKind.SEND, OpKind.RECV)
    wrong = ~np.isin(kinds, [int(k) for k in joined])
    if wrong.any():
        op = graph[int(members[np.argmax(wrong)])]
        raise GraphError(
            f"{op} is a {op.kind.name} in an instance; allowed are COLLECTIVE, SEND, RECV"
        )


def _check_messages(graph: Graph, members: Int64) -> None:
    """Exactly one SEND and one RECV, of one size and type."""
    if not len(members):
        return
    first, sizes = _runs(graph.ops.instance[members])
    wrong = sizes != 2
    pair = np.minimum(first + 1, len(members) - 1)
    kinds = graph.ops.kind
    wrong |= kinds[members[first]] == kinds[members[pair]]
    if wrong.any():
        op = graph[int(members[first[np.argmax(wrong)]])]
        raise GraphError(
            f"message instance {graph.ops.instance[op.id]} with {op} needs one SEND and one RECV"
        )
    _check_alike(graph, members, first, sizes, ("size_bytes", "dtype"))


def _check_collectives(graph: Graph, members: Int64) -> None:
    if not len(members):
        return
    first, sizes = _runs(graph.ops.instance[members])
    _check_alike(graph, members, first, sizes, _ALIKE)
    groups = graph.ops.group[members[first]]
    if (groups == NONE).any():
        raise GraphError(f"{graph[int(members[first[np.argmax(groups == NONE)]])]} has no group")
    if np.isin(groups, _full_groups(graph, members, first, sizes)).all():
        return
    for at, size, group in zip(first.tolist(), sizes.tolist(), groups.tolist()):
        _check_presence(graph, members[at : at + size], group)


def _full_groups(graph: Graph, members: Int64, first: Int64, sizes: Int64) -> list[int]:
    """Groups all of whose instances hold each of their ranks exactly once."""
    groups = graph.ops.group[members[first]]
    ranks = graph.ops.rank[members].astype(np.int64)
    order = np.lexsort((ranks, np.repeat(np.arange(len(first)), sizes)))
    full = []
    for group in np.unique(groups).tolist():
        wanted = np.sort(np.array(graph.groups[group].ranks))
        mine = groups == group
        if (sizes[mine] == len(wanted)).all():
            rows = first[mine][:, None] + np.arange(len(wanted))
            if (ranks[order][rows] == wanted).all():
                full.append(group)
    return full


def _check_presence(graph: Graph, members: Int64, group: int) -> None:
    op = graph[int(members[0])]
    wanted, found = set(graph.groups[group].ranks), graph.ops.rank[members].tolist()
    what = f"{op.name!r} (instance {graph.ops.instance[op.id]}, group {graph.groups[group].name!r})"
    if missing := wanted - set(found):
        raise GraphError(f"collective {what} is missing on ranks {sorted(missing)}; found {found}")
    if extra := set(found) - wanted:
        raise GraphError(f"collective {what} is on ranks {sorted(extra)} outside its group")
    if len(found) != len(wanted):
        twice = sorted({r for r in found if found.count(r) > 1})
        raise GraphError(f"collective {what} is more than once on ranks {twice}")


def _check_alike(
    graph: Graph, members: Int64, first: Int64, sizes: Int64, columns: tuple[str, ...]
) -> None:
    """All members of an instance agree with its first in these columns."""
    heads = np.repeat(members[first], sizes)
    for column in columns:
        values = getattr(graph.ops, column)
        wrong = values[members] != values[heads]
        if wrong.any():
            at = int(np.argmax(wrong))
            one, other = graph[int(heads[at])], graph[int(members[at])]
            raise GraphError(
                f"members of instance {graph.ops.instance[one.id]} differ in {column}: "
                f"{_shown(column, values[one.id])} at {one}, "
                f"{_shown(column, values[other.id])} at {other}"
            )


def _shown(column: str, value: int) -> str:
    enums = {"kind": OpKind, "collective": Collective, "dtype": DType}
    return enums[column](value).name if column in enums else str(value)


def _runs(keys: np.ndarray) -> tuple[Int64, Int64]:
    """Where each run of equal keys begins, and how long it is."""
    first = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    return first, np.diff(np.r_[first, len(keys)])
