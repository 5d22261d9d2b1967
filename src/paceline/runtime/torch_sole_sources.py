"""`sole_sources`: a layer's parameters get gradients by its own forward pass alone.

Gradients of another way, as of a script that multiplies by the layer's weight itself, would stay
this rank's own in silence. They are known by this: what a parameter is then given is not the tensor
that the layer made.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from torch import Tensor, nn

from paceline.runtime.exchange import ExchangeError


class Sources:
    """What a layer's uses gave its weight and bias since these last got their gradients."""

    def __init__(self) -> None:
        self._given: tuple[list[int], list[int]] = ([], [])

    def told(self, gradients: Sequence[Tensor | None]) -> None:
        for given, gradient in zip(self._given, gradients):
            if gradient is not None:
                given.append(gradient.data_ptr())

    def require(self, which: int, gradient: Tensor) -> None:
        """Of several uses the sum is given, which nothing tells from others."""
        given = self._given[which][:]
        self._given[which].clear()
        if not given or (len(given) == 1 and given[0] != gradient.data_ptr()):
            raise ExchangeError(
                "a parameter of a linear layer gets a gradient by another way than the layer's "
                "own forward pass, which the workers do not share under sufficient_factors; leave "
                "that layer out by `layers`"
            )


@contextmanager
def sole_sources(layer: nn.Linear) -> Iterator[Sources]:
    """Asked of parameters whose gradients no hook of the script changes first."""
    sources = Sources()
    with ExitStack() as stack:
        for which, parameter in enumerate((layer.weight, layer.bias)):
            if parameter is not None and parameter.requires_grad and not parameter._backward_hooks:
                stack.callback(parameter.register_hook(_asked(sources, which)).remove)
        yield sources


def _asked(sources: Sources, which: int) -> Callable[[Tensor], None]:
    return lambda gradient: sources.require(which, gradient)
