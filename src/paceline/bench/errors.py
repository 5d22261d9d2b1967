"""What the suite refuses, and says why."""

from paceline.errors import PacelineError


class BenchError(PacelineError):
    """A workload cannot be run as it was asked for."""
