"""Codecs: other forms in which gradients travel, one a file.

A codec has three parts. It compresses (`Compressor`, the files here), it remembers what was left
out where the method does (`torch_memory`), and it communicates (`torch_communicate`): payloads that
add up are all-reduced, others are gathered. Files named `torch_*` need torch.
"""

from paceline.runtime.codecs.codec import (
    Codec,
    Compressor,
    Iterative,
    Momentum,
    Sharing,
    Sparse,
    Turn,
    kept,
)

__all__ = ["Codec", "Compressor", "Iterative", "Momentum", "Sharing", "Sparse", "Turn", "kept"]
