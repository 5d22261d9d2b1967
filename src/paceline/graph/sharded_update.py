"""`with_owners`: each replica updates the parameters that it owns, and gathers the others.

Behind its part of the update a rank packs its new weights, and an all-gather of equal parts, as
long as the largest owner's, brings it those of the others, which it unpacks. Both copies are
unpriced, by the bytes that they touch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.border import UNSCALED
from paceline.graph.copy_back import copies_back
from paceline.graph.gradients import carrying, no_exchange
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import (
    NONE,
    UNPRICED,
    Collective,
    DepKind,
    DType,
    LaneKind,
    OpKind,
    Phase,
)
from paceline.graph.late_update.buckets import there
from paceline.graph.links import Links
from paceline.graph.rank_steps import RankSteps, firsts, lasts, numbered
from paceline.graph.scaled import scaled, works
from paceline.graph.splice import Added, spliced


def owners(sizes: Sequence[int], ranks: int) -> list[int]:
    """The rank that owns each parameter: the largest first, to whom has least so far."""
    held = [0] * ranks
    found = [0] * len(sizes)
    for parameter in sorted(range(len(sizes)), key=lambda p: (-sizes[p], p)):
        owner = held.index(min(held))
        found[parameter] = owner
        held[owner] += sizes[parameter]
    return found


def with_owners(graph: Graph) -> Graph:
    """The graph with the update of replicas cut among them (ZeRO, stage 1)."""
    links = Links.of(graph)
    calls = carrying(graph, links)
    if not len(calls) or graph.facts.update_shards > 1:
        raise no_exchange(
            graph,
            "the recording shows no replicas that each update all parameters, so the update cannot "
            "be cut among them. Record a job under DDP with a plain optimizer.",
        )
    work = _Work(graph, links, _parts(graph, calls, links))
    for row, call in enumerate(work.parts.call.tolist()):
        work.change(row, call)
    facts = replace(graph.facts, update_shards=work.members)
    return replace(work.graph_made(), facts=facts)


@dataclass(frozen=True, eq=False)
class _Parts:
    """Updates of ranks' steps, one row each."""

    call: Int64  # its first exchange
    first: Int64  # the op that begins it
    update: Int64  # ops of all of them, ascending
    of: Int64  # the row of each


def _parts(graph: Graph, calls: Int64, links: Links) -> _Parts:
    ops, steps = graph.ops, RankSteps.of(graph)
    rows, number = numbered(steps.of_op[calls])
    whose = np.full(len(graph), NONE, np.int64)
    whose[there(graph, links)[calls]] = number
    first = copies_back(graph, links, whose, steps.step[rows]).update
    if (first == NONE).any():
        raise GraphError("the recording shows no update behind the exchange of gradients")
    row = lasts(rows, np.arange(len(rows)), len(steps))[steps.of_op]
    update = np.flatnonzero((ops.phase == Phase.UPDATE) & works(graph) & (row != NONE))
    update = update[update >= first[row[update]]]
    return _Parts(firsts(number, calls, len(rows)), first, update, row[update])


class _Work:
    """Goes over the ranks and steps."""

    def __init__(self, graph: Graph, links: Links, parts: _Parts) -> None:
        self.source, self.links, self.parts = graph, links, parts
        self.sizes = [parameter.size_bytes for parameter in graph.facts.parameters]
        self.members = 1
        self.held: dict[int, Int64] = {}  # bytes of each owner, by how many there are
        self.factor = np.ones(len(parts.call))  # by which the updates take as long as they did
        self.instances: dict[tuple[int, int], int] = {}
        self.rows: list[dict[str, int]] = []
        self.linked: list[tuple[int, int, DepKind]] = []

    def change(self, row: int, call: int) -> None:
        ops, parts = self.source.ops, self.parts
        ranks = self.source.groups[int(ops.group[call])].ranks
        self.members = len(ranks)
        if self.members not in self.held:
            owner = owners(self.sizes, self.members)
            self.held[self.members] = np.bincount(owner, self.sizes, self.members)
        held = self.held[self.members]
        share = held[ranks.index(int(ops.rank[call]))]
        self.factor[row] = share / max(1, sum(self.sizes))
        update = parts.update[parts.of == row]
        last = int(update[ops.lane[update] == ops.lane[parts.first[row]]][-1])
        self.gather(call, last, int(share), int(held.max()) * len(ranks))

    def gather(self, call: int, last: int, own_bytes: int, whole_bytes: int) -> None:
        """Behind the last op of the update."""
        pack = self.add(last, last, "pack", own_bytes * 2)
        group, step = int(self.source.ops.group[call]), int(self.source.ops.step[call])
        highest = int(self.source.ops.instance.max())
        number = self.instances.setdefault((group, step), highest + 1 + len(self.instances))
        on_thread = self.source.lanes.kind[self.source.ops.lane[last]] == LaneKind.THREAD
        handed = self.hand_over(call, last) if on_thread else pack
        gather = self.add(call, last, "gather", whole_bytes, instance=number)
        self.linked.append((gather, handed, DepKind.LAUNCH if on_thread else DepKind.EVENT))
        wait = self.add(last, last, "wait", 0) if on_thread else NONE
        unpack = self.add(last, last, "unpack", whole_bytes + sum(self.sizes))
        waits = (wait, DepKind.WAIT) if on_thread else (unpack, DepKind.EVENT)
        self.linked.append((waits[0], gather, waits[1]))

    def hand_over(self, call: int, last: int) -> int:
        """The call that hands the gather over, as one handed the gradients over."""
        links = self.links
        launches = links.src[(links.op == call) & (links.kind == DepKind.LAUNCH)]
        like = int(launches[0]) if len(launches) else last
        dur = int(self.source.ops.dur_ns[like]) if len(launches) else 0
        return self.add(like, last, "hand over", 0, dur_ns=dur)

    def add(self, like: int, behind: int, role: str, size_bytes: int, **columns: int) -> int:
        kind = _KINDS[role]
        dur = UNPRICED if kind in (OpKind.COMPUTE, OpKind.COLLECTIVE) else 0
        lane = int(self.source.ops.lane[like if role == "gather" else behind])
        row = {"like": like, "behind": behind, "kind": int(kind), "lane": lane, "dur_ns": dur}
        row |= {"size_bytes": size_bytes, "instance": NONE, "name": _NAMES.index(role)} | columns
        self.rows.append(row)
        return len(self.source) + len(self.rows) - 1

    def graph_made(self) -> Graph:
        count, names = len(self.rows), len(self.source.names)
        table = {key: np.array([row[key] for row in self.rows]) for key in self.rows[0]}
        like, behind = table.pop("like"), table.pop("behind")
        gathers = table["kind"] == OpKind.COLLECTIVE
        table |= {
            "name": names + table["name"],
            "phase": np.where(gathers, Phase.COMMUNICATION, Phase.UPDATE),
            "collective": np.where(gathers, Collective.ALL_GATHER, Collective.NONE),
            "dtype": np.full(count, DType.FLOAT32),
            "group": np.where(gathers, self.source.ops.group[like], NONE),
            "flops": np.zeros(count, np.int64),
            "tensor": np.full(count, NONE),
            "scale_ppb": np.full(count, UNSCALED),
            "work": np.full(count, NONE),
        }
        factor = np.ones(len(self.source))
        factor[self.parts.update] = self.factor[self.parts.of]
        shorter = scaled(self.source, self.parts.update, factor)
        named = replace(shorter, names=(*self.source.names, *(f"{n} weights" for n in _NAMES)))
        links = self.links
        for kind in sorted({kind for _, _, kind in self.linked}):
            part = np.array([(op, src) for op, src, k in self.linked if k is kind], np.int64)
            links = links.joined(Links.all_of(part[:, 0], part[:, 1], kind))
        gone = np.zeros(len(self.source), np.bool_)
        return spliced(named, gone, Added(like, behind, table), links)


_KINDS = {
    "pack": OpKind.COMPUTE,
    "hand over": OpKind.HOST,
    "gather": OpKind.COLLECTIVE,
    "wait": OpKind.WAIT,
    "unpack": OpKind.COMPUTE,
}
_NAMES = tuple(_KINDS)
