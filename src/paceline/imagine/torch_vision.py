"""Torchvision's architectures, also where its compiled operators do not load.

The wheel of PyPI is built for CUDA. Beside a torch for processors its library is not found, and the
import ends at operators of detectors, which no classifier calls: they are declared, without bodies.
"""

from functools import cache
from importlib import import_module
from typing import Any, Final

import torch

_LACKING: Final = ("nms", "qnms")
_ARGUMENTS: Final = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def architecture(module: str) -> Any:
    """A module of `torchvision.models`, such as `resnet`; empty for all of them."""
    _declared()
    return import_module(f"torchvision.models.{module}" if module else "torchvision.models")


@cache
def _declared() -> Any:
    """What keeps the declaration alive; None where torchvision loads by itself."""
    try:
        import_module("torchvision")
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in _LACKING:
            library.define(name + _ARGUMENTS)
        import_module("torchvision")
        return library
    return None
