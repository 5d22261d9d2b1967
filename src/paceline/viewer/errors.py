"""What a page asked for and cannot have."""

from paceline.errors import PacelineError


class ViewError(PacelineError):
    """A question that makes no sense here."""
