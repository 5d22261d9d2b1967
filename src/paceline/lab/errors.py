"""What can go wrong in the lab, each with what to do about it."""

from paceline.errors import PacelineError


class LabError(PacelineError):
    """The lab cannot be built, found or torn down."""


class WorkerError(LabError):
    """A worker died or did not end in time; the message carries the end of its log."""
