"""A language model on several GPUs: what one of them works on, and what it must exchange.

Data parallel: an equal part of the batch, and an all-reduce of the gradients beside the backward
pass. Tensor parallel (Megatron-LM): heads and feed-forward parts shared out, two all-reduces of the
activations per layer and direction. Pipeline: layers shared out and one batch passed on, so that
one stage works at a time; activations go over the borders.
"""

import re
from dataclasses import dataclass, replace
from enum import Enum

from paceline.errors import GraphError
from paceline.graph.kinds import Collective
from paceline.graph.work import Work, element_bytes
from paceline.imagine.language.backward import backward
from paceline.imagine.language.config import Language
from paceline.imagine.language.eager import Pass, forward
from paceline.imagine.language.fused import fused

_ONE_GPU = ("", "fusion")


class Way(Enum):
    """How several GPUs share a model."""

    DATA = "dp"
    TENSOR = "tp"
    PIPELINE = "pp"


@dataclass(frozen=True)
class GpuSplit:
    """`gpus` GPUs; a pipeline works on `microbatches` one after another."""

    way: Way = Way.DATA
    gpus: int = 1
    microbatches: int = 1


@dataclass(frozen=True)
class RepeatedCollective:
    """`count` collectives of `size_bytes` each among all GPUs."""

    collective: Collective
    size_bytes: float
    count: int = 1


@dataclass(frozen=True)
class GpuStep:
    """What lies on one GPU's way through a step: works, and what is exchanged in each direction.

    `beside` says that the backward exchange runs while the backward pass does. A stage of a
    pipeline repeats its works `turns` times, once for each micro-batch and each other stage.
    """

    forward: tuple[Work, ...]
    backward: tuple[Work, ...]
    exchanged: tuple[RepeatedCollective, ...] = ()
    exchanged_back: tuple[RepeatedCollective, ...] = ()
    beside: bool = False
    turns: float = 1.0


def split_of(option: str) -> GpuSplit:
    """`dp4`, `tp4` or `pp4_1` (four stages, one micro-batch); empty or `fusion` is one GPU."""
    if option in _ONE_GPU:
        return GpuSplit()
    found = re.fullmatch(r"(dp|tp)([1-9]\d*)|(pp)([1-9]\d*)(?:_([1-9]\d*))?", option)
    if found is None:
        raise GraphError(
            f"option {option!r} is not known; known are dp4 (data parallel on four GPUs), tp4 "
            "(tensor parallel), pp4 or pp4_2 (a pipeline of four stages, two micro-batches), each "
            "with any number of GPUs, fusion (torch.compile on one GPU), and none (one GPU)"
        )
    return GpuSplit(Way(found[1] or found[3]), int(found[2] or found[4]), int(found[5] or 1))


def step(model: Language, run: Pass, option: str = "") -> GpuStep:
    """One step of a model: the whole batch of all GPUs is that of `run`."""
    split = split_of(option)
    joined = fused if option == "fusion" else list
    if split.way is Way.DATA:
        if run.batch % split.gpus:
            raise GraphError(f"a batch of {run.batch} cannot be shared by {split.gpus} GPUs evenly")
        run = replace(run, batch=run.batch // split.gpus)
    elif split.way is Way.TENSOR:
        run = replace(run, cut=split.gpus)
    else:
        run = replace(run, batch=max(1, run.batch // split.microbatches))
    there = joined(forward(model, run))
    back = joined(backward(there)) if run.training else []
    made = GpuStep(tuple(there), tuple(back))
    return made if split.gpus == 1 else _shared(made, model, run, split)


def parameters(model: Language) -> int:
    """Weights of all layers and the embedding, without biases."""
    attention = 4 * model.hidden * model.inner
    dense = 2 * model.hidden * model.ffn
    routed = (model.layers + model.decoder) // model.expert_every if model.expert_every else 0
    stacks = model.layers + model.decoder
    ffn = dense * (stacks - routed + routed * model.experts)
    return stacks * attention + model.decoder * attention + ffn + model.vocab * model.hidden


def _shared(made: GpuStep, model: Language, run: Pass, split: GpuSplit) -> GpuStep:
    size = element_bytes(run.dtype)
    activations = run.tokens * model.hidden * size
    if split.way is Way.DATA:
        gradients = RepeatedCollective(Collective.ALL_REDUCE, parameters(model) * size)
        return replace(made, exchanged_back=(gradients,) if run.training else (), beside=True)
    if split.way is Way.TENSOR:
        layers = model.layers + model.decoder
        each = (RepeatedCollective(Collective.ALL_REDUCE, activations, 2 * layers),)
        return replace(made, exchanged=each, exchanged_back=each if run.training else ())
    borders = (RepeatedCollective(Collective.POINT_TO_POINT, activations, split.gpus - 1),)
    turns = (split.microbatches + split.gpus - 1) / split.gpus
    back = borders if run.training else ()
    return replace(made, exchanged=borders, exchanged_back=back, turns=turns)
