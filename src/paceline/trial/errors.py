"""What can go wrong with a run of a live job, apart from what a trial's outcome says."""

from paceline.errors import PacelineError


class TrialError(PacelineError):
    """A live job did not show what it was run for."""
