"""A plan in the words of the framework that runs it, one framework a file: names of files and their
text. What a framework cannot do is an error."""

from collections.abc import Callable, Mapping
from typing import Final

from paceline.imagine.decoder import DecoderJob
from paceline.place.hybrid.exports.accelerate import accelerate
from paceline.place.hybrid.exports.deepspeed import deepspeed
from paceline.place.hybrid.exports.megatron import megatron
from paceline.place.hybrid.exports.torch_code import torch_code
from paceline.place.hybrid.exports.torchtitan import torchtitan

EXPORTS: Final[Mapping[str, Callable[[DecoderJob], Mapping[str, str]]]] = {
    "accelerate": accelerate,
    "deepspeed": deepspeed,
    "megatron": megatron,
    "torch": torch_code,
    "torchtitan": torchtitan,
}

__all__ = ["EXPORTS", "accelerate", "deepspeed", "megatron", "torch_code", "torchtitan"]
