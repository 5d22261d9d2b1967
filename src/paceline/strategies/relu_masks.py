"""A ReLU whose result goes into a pooling, a mean or a dropout keeps one bit a value for the
backward pass, and a max pool short places of its largest values. Jain et al., "Gist: Efficient Data
Encoding for Deep Neural Network Training" (ISCA 2018): binarized ReLUs and maps of pools.

A ReLU's gradient needs to know what was cut and nothing else, a pool's where its values came from:
2 bytes a value in place of torch's 8, and of its input nothing. Numbers are the very same. A ReLU
that a convolution or a product reads keeps its result, for they need it too. Wrong where a ReLU's
result goes to several layers, which the recording does not tell, and in time where tensors are
small, for each mask takes some calls.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import ClassVar

from paceline.graph import Graph, Phase
from paceline.graph.condense import Grain
from paceline.graph.given_up import Left, given_up
from paceline.graph.graph import Bool
from paceline.graph.kinds import MemoryCategory
from paceline.graph.with_packing import Form, with_packing
from paceline.runtime.run import Run
from paceline.strategies.neighbours import Run as Call
from paceline.strategies.neighbours import calls, followed, marked
from paceline.strategies.strategy import KEEPERS, Strategy, StrategyError

_RELU, _RELU_BACK = "aten::clamp_min", "aten::threshold_backward"
_POOL = "aten::max_pool2d_with_indices"
_NEED_NO_INPUT = (_POOL, "aten::mean", "aten::native_dropout")
_MASK = Form("relu masks", 1 / 32, passes=3)  # compared, gathered to bits
_PLACES = 1 / 4  # of 8 bytes


@dataclass(frozen=True)
class ReluMasks(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    conflicts: ClassVar[frozenset[str]] = KEEPERS | {
        *("relu_masks", "restructured_norms", "batchnorm_relu", "compiled")
    }
    applies: ClassVar[bool] = True
    frees_memory: ClassVar[bool] = True

    def transform(self, graph: Graph) -> Graph:
        relus = list(_alone(graph))
        pools = marked(graph, *_pools(graph))
        places = list(_places(graph, relus))
        if not places:
            raise StrategyError(
                "no ReLU is seen in this job that keeps its result and that a pooling, a mean or a "
                "dropout reads, so masks save nothing; leave relu_masks out, or record the job "
                "anew if its recording tells no memory"
            )
        masked = replace(graph, memory=given_up(graph, marked(graph, *relus), Left(_MASK.share)))
        short = given_up(masked, pools, Left(_PLACES, largest=True))
        return with_packing(replace(masked, memory=short), places, _MASK)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_relu_masks import relus_masked

        return relus_masked(run.model)


def _alone(graph: Graph) -> Iterator[Call]:
    """ReLUs of the forward pass behind which nothing needs its input."""
    for reader in _NEED_NO_INPUT:
        for relu, _ in followed(graph, Phase.FORWARD, _RELU, reader):
            yield relu


def _pools(graph: Graph) -> Iterator[Call]:
    return (run for lane in calls(graph, Phase.FORWARD) for name, run in lane if name == _POOL)


def _places(graph: Graph, relus: list[Call]) -> Iterator[tuple[int, int, int]]:
    """Of each such ReLU that keeps anything: its last op, the first one of its backward pass, and
    the bytes of its result."""
    kept, back = _kept_bytes(graph, marked(graph, *relus)), _by_turn(graph)
    for relu in relus:
        size_bytes = sum(kept.get(row, 0) for row in relu)
        if size_bytes and relu[0] in back:
            yield relu[-1], back[relu[0]], size_bytes


def _by_turn(graph: Graph) -> dict[int, int]:
    """By the first op of each ReLU: the first of its backward pass, which goes over them in the
    opposite order."""
    found: dict[int, int] = {}
    forward, backward = (
        _of_step(graph, Phase.FORWARD, _RELU),
        _of_step(graph, Phase.BACKWARD, _RELU_BACK),
    )
    for step, relus in forward.items():
        found.update(zip(relus, reversed(backward.get(step, []))))
    return found


def _of_step(graph: Graph, phase: Phase, operator: str) -> dict[tuple[int, int], list[int]]:
    """By rank and step: the first op of each call."""
    ops, found = graph.ops, dict[tuple[int, int], list[int]]()
    for lane in calls(graph, phase):
        for name, run in lane:
            if name == operator:
                found.setdefault((int(ops.rank[run[0]]), int(ops.step[run[0]])), []).append(run[0])
    return found


def _kept_bytes(graph: Graph, rows: Bool) -> dict[int, int]:
    """By op: what it takes and keeps."""
    memory, found = graph.memory, dict[int, int]()
    taken = rows[memory.op] & (memory.delta_bytes > 0)
    taken &= memory.category == MemoryCategory.ACTIVATIONS
    for op, delta in zip(memory.op[taken].tolist(), memory.delta_bytes[taken].tolist()):
        found[op] = found.get(op, 0) + delta
    return found
