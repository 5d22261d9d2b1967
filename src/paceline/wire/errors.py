"""What can go wrong between ranks, each with what to do about it."""

from paceline.errors import PacelineError


class WireError(PacelineError):
    """The transport cannot do what was asked of it."""
