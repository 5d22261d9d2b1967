"""`Remaking`: how a dense layer becomes one of other weights, and what its weights become after."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from paceline.errors import PacelineError


class LayerError(PacelineError):
    """The layers of this job cannot be made anew."""


def whole(weight: Any) -> Any:
    """The weight as it was trained."""
    return weight


@dataclass(frozen=True)
class Remaking:
    """Two functions of a dense weight (a tensor)."""

    make: Callable[[Any], Any]  # the module's `Structure` that comes nearest to it
    settle: Callable[[Any], Any] = whole  # what is left of it in the end
