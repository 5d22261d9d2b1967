"""What can go wrong in `learn`."""

from paceline.errors import PacelineError


class LearnError(PacelineError):
    """A training of many clients cannot be set up, or its question has no answer."""


class Disconnected(LearnError):
    """Another worker is gone; those that are left may go on without it."""
