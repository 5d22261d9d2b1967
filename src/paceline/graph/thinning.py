"""`thinned`: messages between pipeline stages that carry less, packed before and unpacked behind.

Packing stands behind what hands the message over, unpacking on the message's own lane behind it;
who waited for the message waits for the unpacking.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.border import UNSCALED
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, UNPRICED, Axis, Collective, DepKind, DType, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.scaled import unpriced
from paceline.graph.splice import Added, spliced


@dataclass(frozen=True)
class Thinning:
    """Fewer bytes from stage to stage."""

    name: str  # ops are called `pack NAME` and `unpack NAME`, of gradients `pack back NAME`
    down_bytes: Callable[[int], int]  # of activations, by what they would take
    up_bytes: Callable[[int], int]  # of their gradients


def thinned(graph: Graph, thinning: Thinning) -> Graph:
    """The graph with every message between stages thinned."""
    links = Links.of(graph)
    ops, messages = graph.ops, _messages(graph)
    sent = np.isin(ops.kind, (OpKind.SEND, OpKind.TRANSFER)) & messages
    sends = np.flatnonzero(sent)
    takes = np.flatnonzero(messages & (ops.kind == OpKind.RECV))
    if not len(sends):
        raise GraphError(
            "the job sends no messages between pipeline stages. Activations that tensor-parallel "
            "ranks add up cannot be thinned: which of them are large is known behind the sum alone"
        )
    down = _down(graph, messages)
    whole, less = ops.size_bytes.copy(), _sizes(graph, messages, down, thinning)
    count, names = len(sends) + len(takes), len(graph.names)
    new = len(graph) + np.arange(count)
    packs, unpacks = new[: len(sends)], new[len(sends) :]
    before = _last_source(graph, links, sends)
    behind = np.arange(len(graph), dtype=np.int64)
    behind[takes] = unpacks
    moved = Links(links.op, behind[links.src], links.kind, links.inferred)
    joined = moved.joined(Links.all_of(sends, packs, DepKind.DATA))
    joined = joined.joined(Links.all_of(packs, before, DepKind.DATA))
    joined = joined.joined(Links.all_of(unpacks, takes, DepKind.DATA))
    stands = np.concatenate([before, takes])
    rows = np.concatenate([sends, takes])
    columns = {
        "kind": np.full(count, OpKind.COMPUTE),
        "phase": np.full(count, Phase.COMMUNICATION),
        "dur_ns": np.full(count, UNPRICED),
        "size_bytes": 2 * whole[rows] + less[rows],
        "flops": np.zeros(count, np.int64),
        "group": np.full(count, NONE),
        "instance": np.full(count, NONE),
        "collective": np.full(count, Collective.NONE),
        "dtype": np.full(count, DType.FLOAT32),
        "name": names + 2 * ~down[rows] + np.repeat([0, 1], [len(sends), len(takes)]),
        "tensor": np.full(count, NONE),
        "scale_ppb": np.full(count, UNSCALED),
        "work": np.full(count, NONE),
    }
    told = (*graph.names, *(f"{verb} {thinning.name}" for verb in _VERBS))
    changed = unpriced(replace(graph, ops=replace(ops, size_bytes=less), names=told), messages)
    gone = np.zeros(len(graph), np.bool_)
    return spliced(changed, gone, Added(stands, stands, columns), joined)


_VERBS = ("pack", "unpack", "pack back", "unpack back")


def _messages(graph: Graph) -> Bool:
    rows = [row for row, group in enumerate(graph.groups) if group.axis is Axis.PIPELINE]
    kinds = (OpKind.SEND, OpKind.RECV, OpKind.TRANSFER)
    found: Bool = np.isin(graph.ops.kind, kinds) & np.isin(graph.ops.group, rows)
    return found


def _down(graph: Graph, messages: Bool) -> Bool:
    """Messages towards a later stage: they are activations, others gradients."""
    found, ends = np.zeros(len(graph), np.bool_), _ends(graph, messages)
    for row in np.flatnonzero(messages).tolist():
        source, target = ends[int(graph.ops.instance[row])]
        found[row] = source < target
    return found


def _sizes(graph: Graph, messages: Bool, down: Bool, thinning: Thinning) -> Int64:
    """Bytes of every op, of messages the fewer."""
    sizes = graph.ops.size_bytes.copy()
    for row in np.flatnonzero(messages).tolist():
        how = thinning.down_bytes if down[row] else thinning.up_bytes
        sizes[row] = how(int(sizes[row]))
    return sizes


def _ends(graph: Graph, messages: Bool) -> dict[int, tuple[int, int]]:
    """By instance: the rank that sends and the one that receives."""
    ops = graph.ops
    sends = np.flatnonzero(messages & (ops.kind != OpKind.RECV))
    takes = np.flatnonzero(messages & (ops.kind == OpKind.RECV))
    receiver = dict(zip(ops.instance[takes].tolist(), ops.rank[takes].tolist()))
    pairs = zip(ops.instance[sends].tolist(), ops.rank[sends].tolist())
    found = {instance: (rank, receiver.get(instance, NONE)) for instance, rank in pairs}
    if NONE in {end for pair in found.values() for end in pair} or set(receiver) - set(found):
        raise GraphError(
            "the recording holds one side alone of some messages between stages, so which carry "
            "activations is not known. Import the traces of all ranks."
        )
    return found


def _last_source(graph: Graph, links: Links, sends: Int64) -> Int64:
    """The last op of its rank that each message waits for."""
    last = np.full(len(graph), NONE, np.int64)
    own = graph.ops.rank[links.op] == graph.ops.rank[links.src]
    np.maximum.at(last, links.op[own], links.src[own])
    found: Int64 = last[sends]
    if (found == NONE).any():
        raise GraphError("a message between stages waits for nothing, so nothing packs it")
    return found
