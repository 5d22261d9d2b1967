"""Why a job cannot be tuned."""

from paceline.errors import PacelineError


class TuneError(PacelineError):
    """There is nothing to tune, or it cannot be recorded."""
