"""What goes wrong in pricing."""

from paceline.errors import PacelineError


class CostError(PacelineError):
    """A duration cannot be found."""
