"""Linear layers and convolutions of a live job made of other weights, and made dense again.

`torch_swapped` puts them in; `torch_circulant` and `torch_composed` are what they become.
"""

from paceline.runtime.layers.remaking import LayerError, Remaking

__all__ = ["LayerError", "Remaking"]
