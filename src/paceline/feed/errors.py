"""Errors of input: descriptions, disks, files, readers."""

from paceline.errors import PacelineError


class FeedError(PacelineError):
    """A data set cannot be described, written or read."""
