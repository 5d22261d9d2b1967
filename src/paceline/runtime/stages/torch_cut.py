"""Cutting a sequential model into stages of equally many layers."""

from torch import nn

from paceline.runtime.stages.errors import PipelineError


def cut(model: nn.Sequential, stages: int) -> list[nn.Sequential]:
    """The stages, in order; they share their layers with the model."""
    layers = list(model.children())
    if stages < 1 or len(layers) % stages:
        raise PipelineError(
            f"{len(layers)} layers do not divide into {stages} equal stages; give a number of "
            f"stages out of {[n for n in range(1, len(layers) + 1) if len(layers) % n == 0]}, or "
            "make the stages yourself"
        )
    size = len(layers) // stages
    return [nn.Sequential(*layers[i : i + size]) for i in range(0, len(layers), size)]
