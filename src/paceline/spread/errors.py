"""Why work cannot be spread."""

from paceline.errors import PacelineError


class SpreadError(PacelineError):
    """No workers answer as asked."""
