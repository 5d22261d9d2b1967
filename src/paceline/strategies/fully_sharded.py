"""Replicas keep a part of each weight and gather those of a block for its passes, in place of DDP.
Zhao et al., "PyTorch FSDP" (VLDB 2023); Rajbhandari et al., "ZeRO" (2020), stage 3.

Blocks are what a model numbers (`layers.3`), each wrapped by itself and gathered again for its
backward pass; other weights are gathered once. Memory falls by the number of workers. Half as much
again is sent as by an all-reduce, over gloo too, whose own reduce-scatter is an all-reduce: parts
of gradients go straight to those who keep them. As gloo blocks, nothing of it hides there. In a
recorded process all parts go at once, which is slower, so that a recording tells whose they are.

A live job's DDP stays as a shell. Checkpoints hold whole weights and state, which one rank may
save alone while no other has ended (scripts end with destroy_process_group); what one rank
evaluates alone must run under torch.no_grad() or in eval(). Passes under no_sync() reduce, too. An
error inside gives back the weights from before the plan.

What FSDP2's Python takes for each block and weight `paceline measure --lab` finds; without, it is
left out. Wrong by its updates of cut weights, by its order of calls where it gathers a block ahead,
and on a device by its copies, which are not counted there.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.condense import Grain
from paceline.graph.fully_sharded import fully_sharded
from paceline.runtime.run import Run
from paceline.strategies.coded import CODECS
from paceline.strategies.strategy import Strategy


@dataclass(frozen=True)
class FullySharded(Strategy):
    grain: ClassVar[Grain] = Grain.LAYER
    conflicts: ClassVar[frozenset[str]] = CODECS | {
        *("fully_sharded", "zero1", "keep_gathered", "buckets", "partition", "priority"),
        *("hierarchical", "parameter_server", "early_update", "overlap_update", "accumulate"),
        *("local_sgd", "overlap_local_sgd", "diloco", "pipeline", "tensor_parallel"),
        *("uneven_batches", "bounded_loss", "fused_step", "fused_optimizer", "channels_last"),
        "substitute",
    }
    follows: ClassVar[frozenset[str]] = frozenset({"batch", "workers", "remodelling"})
    applies: ClassVar[bool] = True
    frees_memory: ClassVar[bool] = True

    def transform(self, graph: Graph) -> Graph:
        return fully_sharded(graph)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_shards()
