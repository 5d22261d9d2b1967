"""`Told`: what a described job tells of its gradients, so that its buckets can be changed.

A layer's parameters count as one tensor, whose gradient its last kernel in the last backward pass
readies; the embedding on the first stage and the output on the last one are one tensor each.
"""

from dataclasses import replace

from paceline.graph.facts import Facts, Parameter
from paceline.graph.graph import OpColumns
from paceline.imagine.transformer.description import Described
from paceline.imagine.transformer.finish import ends_params, layer_gradient_bytes
from paceline.imagine.transformer.kernels import ELEMENT_BYTES
from paceline.imagine.transformer.rows import GradientEnd, OpRows

EMBEDDING, OUTPUT = -1, -2
"""Parts of a block that are no layer."""

_ENDS = {EMBEDDING: "embedding", OUTPUT: "output"}


class Told:
    """Gathers, block by block, which op readies which gradient."""

    def __init__(self, job: Described) -> None:
        self._job = job
        self._ready: dict[int, str] = {}  # by op, the tensor
        self._sizes: dict[str, int] = {}
        self._of_stage: dict[int, list[int]] = {}  # ops, in the order of the pass

    def block(self, first: int, ends: tuple[GradientEnd, ...], stage: int, chunk: int) -> None:
        """A backward pass after which the gradients of its layers are complete."""
        for end in sorted(ends, key=lambda end: end.row):
            name = self._name(end.part, stage, chunk)
            self._ready[first + end.row] = name
            self._sizes[name] = self._bytes(end.part, stage)
            self._of_stage.setdefault(stage, []).append(first + end.row)

    def unreduced(self, stage: int) -> list[int]:
        """Ops whose gradients are reduced behind the backward pass."""
        ready = self._of_stage.get(stage, [])
        if not self._job.training.overlap_gradients:
            return ready
        return [op for op in ready if self._ready[op] in _ENDS.values()]

    def facts(self) -> Facts:
        """Nothing where no gradient travels; buckets are those of the first stage."""
        if self._job.degrees.data * self._job.degrees.sequence == 1:
            return Facts()
        parameters = tuple(Parameter(name, size) for name, size in self._sizes.items())
        own = [self._ready[op] for op in self._of_stage.get(0, [])]
        behind = tuple(self._ready[op] for op in self.unreduced(0))
        beside = tuple((name,) for name in own if name not in behind)
        return Facts(parameters=parameters, buckets=(*beside, behind))

    def named(self, rows: OpRows) -> OpColumns:
        """The ops with the tensors that they ready, where gradients travel."""
        if not self.facts().parameters:
            return rows.ops()
        tensors = {op: rows.intern(name) for op, name in self._ready.items()}
        ops = rows.ops()
        tensor = ops.tensor.copy()
        tensor[list(tensors)] = list(tensors.values())
        return replace(ops, tensor=tensor)

    def _name(self, part: int, stage: int, chunk: int) -> str:
        if part in _ENDS:
            return _ENDS[part]
        virtual = chunk * self._job.degrees.pipeline + stage
        return f"layer {virtual * self._job.layers_a_chunk + part}"

    def _bytes(self, part: int, stage: int) -> int:
        if part in _ENDS:
            return ends_params(self._job, stage) * ELEMENT_BYTES[self._job.model.dtype]
        return layer_gradient_bytes(self._job)
