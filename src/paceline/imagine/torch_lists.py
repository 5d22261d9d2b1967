"""`lists_at_once`: torch's choice between one call per tensor and one per list, as on a GPU.

Optimizers, and the clipping of gradients, take all parameters in one call (`foreach`) where they
lie on a GPU as plain tensors and the script does not say otherwise. Imagined parameters are fake
ones on a processor. So torch is told that both will do, and decides by itself: sharded tensors, and
what a script sets, stay as they would on a GPU.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch._subclasses.fake_tensor import FakeTensor
from torch.optim import optimizer
from torch.utils import _foreach_utils

from paceline.record.torch_patch import Patches


@contextmanager
def lists_at_once() -> Iterator[None]:
    kinds: list[list[Any]] = [
        optimizer._foreach_supported_types,
        _foreach_utils._foreach_supported_types,
    ]
    patches = Patches()
    patches.wrap(optimizer, "_get_foreach_kernels_supported_devices", _with_processors)
    for known in kinds:
        known.append(FakeTensor)
    try:
        yield
    finally:
        for known in kinds:
            known.remove(FakeTensor)
        patches.undo()


def _with_processors(original: Any) -> Any:
    return lambda: [*original(), "cpu"]
