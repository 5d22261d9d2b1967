"""What can go wrong between ranks, each with what to do about it."""

from paceline.errors import PacelineError


class WireError(PacelineError):
    """The transport cannot do what was asked of it."""


class PeerLost(WireError):
    """A rank ended, or said nothing for too long, while a tensor was on its way."""


class ReplicaError(WireError):
    """Ranks hold different values where they must be equal."""
