"""What can be wrong with a pipeline."""

from paceline.errors import PacelineError


class PipelineError(PacelineError):
    """A pipeline cannot be cut, scheduled, run on, or resumed."""
