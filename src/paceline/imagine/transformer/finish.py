"""The end of a step: reduce gradients, update the weights, gather them where they are sharded.

Mixed-precision Adam as Megatron-LM runs it moves 60 bytes a parameter: unscale and copy the
gradients to float32 (6 + 8), clip them by their norm (12), update weight and both moments in
float32 (28), copy back to 16 bits (6). In float32 alone it moves 28.
"""

from paceline.graph.kinds import NONE, Axis, Collective, DepKind, DType, OpKind, Phase
from paceline.imagine.transformer.description import Described
from paceline.imagine.transformer.kernels import ELEMENT_BYTES
from paceline.imagine.transformer.layout import Lane, Layout
from paceline.imagine.transformer.rows import TemplateOp

ALL_GRADIENTS = "gradients"
"""The reduction behind the backward pass, of all gradients that were not reduced beside it."""

_ADAM_BYTES = {DType.FLOAT32: 28, DType.FLOAT64: 56}
_MIXED_ADAM_BYTES = 60


def layer_gradients(job: Described, layout: Layout, stage: int) -> TemplateOp:
    """The reduction of one layer's gradients, beside the backward pass."""
    return _reduction("layer gradients", layer_gradient_bytes(job), job, layout, stage)


def layer_gradient_bytes(job: Described) -> int:
    """What is reduced of one layer on a rank."""
    overlapped = job.training.overlap_gradients
    params = job.model.layer_params // job.degrees.tensor if overlapped else _layer_params(job)
    return params * ELEMENT_BYTES[job.model.dtype]


def layer_weights(job: Described, layout: Layout, stage: int) -> TemplateOp:
    """One layer's weights from all data ranks, which ZeRO 3 shares out."""
    size = job.model.layer_params // job.degrees.tensor * ELEMENT_BYTES[job.model.dtype]
    return _collective("layer weights", Collective.ALL_GATHER, size, job, layout, stage)


def finish_rows(
    job: Described, layout: Layout, stage: int
) -> tuple[list[TemplateOp], list[tuple[int, int, DepKind]], list[int]]:
    """Ops of the end of a stage's step, their links, and which of them join other stages."""
    params = stage_params(job, stage)
    size = params * ELEMENT_BYTES[job.model.dtype]
    rows = [TemplateOp("wait for backward", Lane.HOST, OpKind.WAIT, Phase.UPDATE)]
    links: list[tuple[int, int, DepKind]] = []
    joined: list[int] = []
    if job.degrees.data * job.degrees.sequence > 1:
        overlapped = job.training.overlap_gradients
        rest = ends_params(job, stage) * ELEMENT_BYTES[job.model.dtype] if overlapped else size
        _append(rows, links, _reduction(ALL_GRADIENTS, rest, job, layout, stage), DepKind.LAUNCH)
    if layout.stages > 1 and stage in (0, layout.stages - 1):
        joined.append(len(rows))
        _append(rows, links, _shared_embedding(job, layout), DepKind.GRADIENT)
    _append(
        rows, links, TemplateOp("launch update", Lane.HOST, OpKind.HOST, Phase.UPDATE), DepKind.WAIT
    )
    _append(rows, links, _update(job, params), DepKind.LAUNCH)
    if job.training.zero_stage in (1, 2) and job.degrees.data > 1:
        gather = _collective("gather weights", Collective.ALL_GATHER, size, job, layout, stage)
        _append(rows, links, gather, DepKind.DATA)
    return rows, links, joined


def stage_params(job: Described, stage: int) -> int:
    """Parameters on one rank of a stage, the embedding on the first and last one among them."""
    layers = job.model.layers // job.degrees.pipeline
    return layers * _layer_params(job) + ends_params(job, stage)


def _layer_params(job: Described) -> int:
    m, d = job.model, job.degrees
    experts = (m.experts // d.expert) * 2 * m.hidden * m.ffn_size
    return (4 * m.hidden**2 + experts) // d.tensor


def ends_params(job: Described, stage: int) -> int:
    ends = stage in (0, job.degrees.pipeline - 1)
    return job.model.embedding_params // job.degrees.tensor if ends else 0


def _append(
    rows: list[TemplateOp], links: list[tuple[int, int, DepKind]], row: TemplateOp, kind: DepKind
) -> None:
    """One more op that waits for the one before it."""
    rows.append(row)
    links.append((len(rows) - 1, len(rows) - 2, kind))


def _reduction(name: str, size: int, job: Described, layout: Layout, stage: int) -> TemplateOp:
    sharded = job.training.zero_stage >= 1
    how = Collective.REDUCE_SCATTER if sharded else Collective.ALL_REDUCE
    return _collective(name, how, size, job, layout, stage)


def _collective(
    name: str, how: Collective, size: int, job: Described, layout: Layout, stage: int
) -> TemplateOp:
    return TemplateOp(
        name,
        Lane.DATA,
        OpKind.COLLECTIVE,
        Phase.COMMUNICATION,
        size,
        group=layout.group(stage, Axis.DATA),
        collective=how,
        dtype=job.model.dtype,
    )


def _shared_embedding(job: Described, layout: Layout) -> TemplateOp:
    size = job.model.embedding_params // job.degrees.tensor * ELEMENT_BYTES[job.model.dtype]
    return TemplateOp(
        "embedding gradients",
        Lane.DATA,
        OpKind.COLLECTIVE,
        Phase.COMMUNICATION,
        size,
        group=layout.ends,
        collective=Collective.ALL_REDUCE,
        dtype=job.model.dtype,
    )


def _update(job: Described, params: int) -> TemplateOp:
    owned = params // job.degrees.data if job.training.zero_stage else params
    moved = owned * _ADAM_BYTES.get(job.model.dtype, _MIXED_ADAM_BYTES)
    return TemplateOp(
        "adam",
        Lane.STREAM,
        OpKind.COMPUTE,
        Phase.UPDATE,
        moved,
        group=NONE,
        dtype=DType.FLOAT32,
    )
